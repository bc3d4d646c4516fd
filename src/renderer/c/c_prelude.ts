/**
 * What units of C with vectors stand on, for clang and gcc alike: vector types, splats, choices and small functions as
 * macros; writes past the caches, and reads that are asked for ahead.
 *
 * @module
 */

/**
 * What all units start with. Helpers are no functions of the unit that a compiler knows all calls of: of x < 16 ? max(x, 0) : 16
 * clang 19 takes it that the maximum is below 16, computes it first, and drops the choice.
 */
export const PRELUDE: string = `#ifdef __clang__
#define VEC(n, bytes) __attribute__((ext_vector_type(n)))
#define SPLAT(T, E, x) ((T)(E)(x))
#define SELECT(T, M, m, a, b) ((m) ? (a) : (b))
#else
#define VEC(n, bytes) __attribute__((vector_size(bytes)))
#define SPLAT(T, E, x) ((E)(x) - (T){})
#define SELECT(T, M, m, a, b) ((T)(((m) & (M)(a)) | (~(m) & (M)(b))))
#endif
#ifndef __has_builtin
#define __has_builtin(x) 0
#endif
#define INLINE extern inline __attribute__((always_inline, gnu_inline))`;

/** Writes a vector past the caches where it is a line of them; FENCE puts such writes before what comes after it. */
export const STREAM: string = `#if __has_builtin(__builtin_nontemporal_store)
#define STREAM(T, p, ...) do { \\
  T stream_x = __VA_ARGS__; void *stream_p = (p); \\
  if (((__UINTPTR_TYPE__)stream_p & 63) == 0) __builtin_nontemporal_store(stream_x, (T *)stream_p); \\
  else *(T##_u *)stream_p = stream_x; \\
} while (0)
#else
#define STREAM(T, p, ...) *(T##_u *)(p) = (__VA_ARGS__)
#endif
#if __has_builtin(__builtin_ia32_sfence)
#define FENCE() __builtin_ia32_sfence()
#else
#define FENCE() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#endif`;

/** Reads a vector, and asks for what comes later; addresses past the end are no fault. */
export const READ_AHEAD: string = `#if __has_builtin(__builtin_prefetch)
#define PREFETCH(p, n) __builtin_prefetch((const char *)(p) + (n))
#else
#define PREFETCH(p, n) ((void)0)
#endif
#define AHEAD(T, p, n) (PREFETCH(p, n), *(const T##_u *)(p))`;

/**
 * Loads vectors of 32 bits a lane of which a word has a bit where one is read; others are 0, and nothing is touched there. A
 * pointer goes to both compilers as `void *`, since they declare other types.
 */
export const LOAD_MASKED: string = `#if defined(__AVX512F__) && defined(__AVX512VL__)
typedef float masked16 __attribute__((vector_size(64)));
typedef float masked8 __attribute__((vector_size(32)));
typedef float masked4 __attribute__((vector_size(16)));
#define LOAD_MASKED16(p, m) __builtin_ia32_loadups512_mask((const void *)(p), (masked16){}, (unsigned short)(m))
#define LOAD_MASKED8(p, m) __builtin_ia32_loadups256_mask((const void *)(p), (masked8){}, (unsigned char)(m))
#define LOAD_MASKED4(p, m) __builtin_ia32_loadups128_mask((const void *)(p), (masked4){}, (unsigned char)(m))
#elif defined(__AVX2__)
typedef int masked8 __attribute__((vector_size(32)));
typedef int masked4 __attribute__((vector_size(16)));
#define LOAD_MASKED8(p, m) __builtin_ia32_maskloadps256((const void *)(p), \\
  ((((int)(m)) - (masked8){}) & (masked8){1, 2, 4, 8, 16, 32, 64, 128}) != 0)
#define LOAD_MASKED4(p, m) __builtin_ia32_maskloadps((const void *)(p), \\
  ((((int)(m)) - (masked4){}) & (masked4){1, 2, 4, 8}) != 0)
#endif`;
