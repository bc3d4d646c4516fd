/**
 * Threads of an export as C: kernels whose loops may be shared are handed on in parts, by whatever the caller has for that,
 * and a pool of POSIX threads beside the export is one such thing. In: functions with a shared loop; out: the texts.
 *
 * @module
 */
import { callerType, type CFunction } from "./c_kernels.ts";

/** What the header says of parts: types, and a function that sets who runs them. */
export function shareHeader(name: string, threads: number): string[] {
  return [
    "/* Threads, at most; a part of a loop, from begin to end: those at one time have another `thread` each, from 0 on. */",
    `#define ${name.toUpperCase()}_THREADS ${threads}`,
    `typedef void ${name}_part(const void *args, int begin, int end, int thread);`,
    "/* Calls part for all from 0 to count, in any order and by any threads, and returns when all has been done. */",
    `typedef void ${name}_share(void *pool, ${name}_part *part, const void *args, int count);`,
    "",
  ];
}

/** A function that calls a kernel for a part of its shared loop; `args` are the addresses of its arguments. */
export function partFunction(f: CFunction, part: string): string[] {
  const { program, name } = f, params = program.params.filter((p) => p !== undefined);
  const given = [
    ...params.map((p, i) => {
      const type = callerType(p.dtype);
      return p.writes ? `(${type} *)a[${i}]` : `(const ${type} *)a[${i}]`;
    }),
    ...program.vars.map((v, i) => `*(const ${callerType(v.dtype)} *)a[${params.length + i}]`),
    ...(f.scratch > 0 ? [`(unsigned char *)a[${params.length + program.vars.length}] + thread * ${f.scratch}`] : []),
  ];
  return [
    `static void ${part}(const void *args, int begin, int end, int thread) {`,
    "  void *const *const a = (void *const *)args;",
    ...(f.scratch > 0 ? [] : ["  (void)thread;"]),
    `  ${name}(${[...given, "begin", "end"].join(", ")});`,
    "}",
  ];
}

/** The call of such a function with these arguments, of which scalars have names and types. */
export function sharedCall(
  f: CFunction,
  part: string,
  arrays: readonly string[],
  scalars: readonly (readonly [type: string, text: string])[],
  scratch: readonly string[],
): string[] {
  const named = scalars.map(([type, text], i) => `const ${type} s${i} = ${text};`);
  const list = [...arrays.map((a) => `(void *)${a}`), ...scalars.map((_, i) => `(void *)&s${i}`), ...scratch];
  return [
    "{",
    ...named.map((l) => `  ${l}`),
    `  void *args[${list.length}];`,
    ...list.map((text, i) => `  args[${i}] = ${text};`),
    `  if (context->share) context->share(context->pool, ${part}, args, ${f.program.threads});`,
    `  else ${part}(args, 0, ${f.program.threads}, 0);`,
    "}",
  ];
}

/** The header of the pool. */
export function poolHeader(name: string): string[] {
  return [
    `/* ${name}_threads: POSIX threads that share the loops of ${name}. Link with -pthread. */`,
    "#include <pthread.h>",
    `#include "${name}.h"`,
    "",
    `typedef struct ${name}_threads {`,
    "  pthread_mutex_t lock;",
    "  pthread_cond_t wake;",
    `  pthread_t workers[${name.toUpperCase()}_THREADS];`,
    "  int count, sleepers, stopping, made;",
    "  unsigned long long left; /* the number of the loop, and below it parts that nobody has taken */",
    "  int parts, done, size;",
    `  ${name}_part *part;`,
    "  const void *args;",
    `} ${name}_threads;`,
    "",
    `/* Begins with so many threads, the caller among them, at most ${name.toUpperCase()}_THREADS; gives how many there are. */`,
    `int ${name}_threads_start(${name}_threads *pool, int threads);`,
    `void ${name}_threads_stop(${name}_threads *pool);`,
    `/* For ${name}_share_by. One run at a time. */`,
    `void ${name}_threads_share(void *pool, ${name}_part *part, const void *args, int count);`,
  ];
}

/** Looks of a thread for work before it sleeps: as long as a small kernel takes, since to wake one takes longer. */
const SPINS = 20000;
/** Parts that a thread takes of a loop, about: more even out, fewer take less time to hand out. */
const PARTS = 4;

/** The source of the pool. */
export function poolSource(name: string): string {
  return `/* ${name}_threads.c: see ${name}_threads.h. Written by dinograd. */
#define _POSIX_C_SOURCE 200112L
#include "${name}_threads.h"
#include <sched.h>

/* The parts of a loop are counted down in one word with the number of the loop, so that a thread that comes late takes
   nothing of the next one. */
static int take(${name}_threads *p, unsigned loop) {
  unsigned long long now = __atomic_load_n(&p->left, __ATOMIC_ACQUIRE);
  while ((unsigned)(now >> 32) == loop && (unsigned)now > 0) {
    if (__atomic_compare_exchange_n(&p->left, &now, now - 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return (int)(unsigned)now;
  }
  return 0;
}

static void work(${name}_threads *p, unsigned loop, int thread) {
  int left;
  while ((left = take(p, loop)) > 0) {
    long long i = p->parts - left, size = p->size, parts = p->parts;
    p->part(p->args, (int)(size * i / parts), (int)(size * (i + 1) / parts), thread);
    __atomic_fetch_add(&p->done, 1, __ATOMIC_ACQ_REL);
  }
}

static unsigned loop_of(${name}_threads *p) { return (unsigned)(__atomic_load_n(&p->left, __ATOMIC_SEQ_CST) >> 32); }
static int has_news(${name}_threads *p, unsigned seen) {
  return loop_of(p) != seen || __atomic_load_n(&p->stopping, __ATOMIC_SEQ_CST);
}

static void *worker(void *given) {
  ${name}_threads *p = (${name}_threads *)given;
  int thread = __atomic_add_fetch(&p->made, 1, __ATOMIC_ACQ_REL), spins;
  unsigned seen = 0;
  for (;;) {
    for (spins = 0; spins < ${SPINS} && !has_news(p, seen); spins++) if (spins % 64 == 63) sched_yield();
    if (!has_news(p, seen)) {
      pthread_mutex_lock(&p->lock);
      __atomic_add_fetch(&p->sleepers, 1, __ATOMIC_SEQ_CST);
      while (!has_news(p, seen)) pthread_cond_wait(&p->wake, &p->lock);
      __atomic_sub_fetch(&p->sleepers, 1, __ATOMIC_SEQ_CST);
      pthread_mutex_unlock(&p->lock);
    }
    if (__atomic_load_n(&p->stopping, __ATOMIC_SEQ_CST)) return 0;
    seen = loop_of(p);
    work(p, seen, thread);
  }
}

static void wake_all(${name}_threads *p) {
  pthread_mutex_lock(&p->lock);
  pthread_cond_broadcast(&p->wake);
  pthread_mutex_unlock(&p->lock);
}

int ${name}_threads_start(${name}_threads *p, int threads) {
  p->count = 1;
  p->sleepers = p->stopping = p->made = 0;
  p->left = 0;
  pthread_mutex_init(&p->lock, 0);
  pthread_cond_init(&p->wake, 0);
  while (p->count < threads && p->count < ${name.toUpperCase()}_THREADS) {
    if (pthread_create(&p->workers[p->count], 0, worker, p) != 0) break;
    p->count++;
  }
  return p->count;
}

void ${name}_threads_stop(${name}_threads *p) {
  __atomic_store_n(&p->stopping, 1, __ATOMIC_SEQ_CST);
  wake_all(p);
  while (p->count > 1) pthread_join(p->workers[--p->count], 0);
  pthread_cond_destroy(&p->wake);
  pthread_mutex_destroy(&p->lock);
}

void ${name}_threads_share(void *pool, ${name}_part *part, const void *args, int count) {
  ${name}_threads *p = (${name}_threads *)pool;
  unsigned loop = loop_of(p) + 1;
  if (p->count < 2 || count < 2) {
    part(args, 0, count, 0);
    return;
  }
  p->part = part;
  p->args = args;
  p->size = count;
  p->parts = count < ${PARTS} * p->count ? count : ${PARTS} * p->count;
  p->done = 0;
  __atomic_store_n(&p->left, (unsigned long long)loop << 32 | (unsigned)p->parts, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&p->sleepers, __ATOMIC_SEQ_CST) > 0) wake_all(p);
  work(p, loop, 0);
  while (__atomic_load_n(&p->done, __ATOMIC_ACQUIRE) != p->parts) sched_yield();
}
`;
}
