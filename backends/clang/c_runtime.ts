/**
 * The C runtime of the CLANG device, as text: memory, loading of compiled kernels, and a thread pool that runs a whole
 * command buffer in one call. Compiled once into the cache; the only library that Deno itself opens.
 *
 * A command is words of 64 bits: function, words in all, buffers, THREAD extent, chunks, nanoseconds that one thread takes,
 * then the buffer addresses and the values of the variables. The nanoseconds are a guess at first, and then what it took.
 * A kernel with one chunk runs on the calling thread; of others each thread has a part, which
 * is the same one each time, so that it finds what it wrote or read before in its own cache, and takes chunks of the parts
 * of others when its own has none left. The upper half of a part's counter names the kernel, so that a thread that comes
 * late takes nothing of the next one. Kernels are separated by waiting for all chunks, not for all threads: one that the
 * system has put aside before it took any holds nobody up. Idle workers spin for a moment, then sleep: for longer than a
 * program takes between two kernels, since to wake one takes longer than a small kernel. Those that sleep are woken where
 * the commands that follow have work enough for them: else the calling thread runs a kernel as if it were the only one. A
 * worker that finds itself on the core of the calling thread, as where other programs have the other cores, takes nothing
 * and sleeps at once: whatever it did there, the calling thread would wait for.
 *
 * @module
 */
import { MEMORY_SOURCE } from "./c_memory.ts";

/** Part of the cache key: raised whenever the text below changes meaning. */
export const RUNTIME_ABI = 5;

/** Words before the buffer addresses of a command. */
export const COMMAND_HEADER = 6;

/** Symbols of the runtime, for `Deno.dlopen`. Addresses are u64 (bigint). */
export const RUNTIME_SYMBOLS = {
  dino_start: { parameters: ["i32"], result: "i32" },
  dino_stop: { parameters: [], result: "void" },
  dino_cpu: { parameters: ["buffer", "i32"], result: "i32" },
  dino_number: { parameters: ["i32"], result: "f64" },
  dino_open: { parameters: ["buffer", "buffer", "i32"], result: "u64" },
  dino_symbol: { parameters: ["u64", "buffer"], result: "u64" },
  dino_alloc: { parameters: ["u64"], result: "u64" },
  dino_free: { parameters: ["u64", "u64"], result: "void" },
  dino_alloc_guarded: { parameters: ["u64"], result: "u64" },
  dino_free_guarded: { parameters: ["u64", "u64"], result: "void" },
  dino_copy_in: { parameters: ["u64", "buffer", "u64"], result: "void" },
  dino_copy_out: { parameters: ["buffer", "u64", "u64"], result: "void" },
  dino_copy: { parameters: ["u64", "u64", "u64"], result: "void" },
  dino_run: { parameters: ["buffer", "i32", "buffer"], result: "void" },
  dino_run_watched: { parameters: ["buffer", "i32", "buffer", "buffer", "i32", "i32", "i32"], result: "void" },
  dino_counters: { parameters: ["buffer", "i32"], result: "i32" },
  dino_populate: { parameters: ["buffer", "u64"], result: "void" },
} as const;

/** The source. */
export const RUNTIME_SOURCE: string = `#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__) && defined(__has_include)
#if __has_include(<linux/perf_event.h>)
#include <errno.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#define HAS_COUNTERS 1
#endif
#endif

typedef void (*kernel_t)(void **, const unsigned long long *, int, int);
typedef struct { uint64_t fn, words, nbufs, extent, chunks, ns, args[]; } command_t;

#define MAX_THREADS 256
#define SPIN 4000       /* looks of who waits for the last chunks, before it lets others run */
#define SPIN_MS 0.2     /* what an idle worker waits before it sleeps */
#define WAKE_NS 100000  /* of work for threads: what is less is done before one that was woken comes */
#define CROWDED_MS 1    /* for which nobody is woken, after one woke on the core of its caller */
#define LOOKS 64        /* looks from one reading of the clock to the next */

static pthread_t workers[MAX_THREADS];
static unsigned begins[MAX_THREADS];         /* kernel number that was there when a thread was made */
static int worker_count;
static command_t *current;
static struct { _Alignas(64) atomic_ullong left; } parts[MAX_THREADS]; /* kernel number << 32 | chunks left to take */
static atomic_uint part_count;               /* of the kernel that was published last */
static _Alignas(64) atomic_uint published;   /* kernel number that the workers look at */
static _Alignas(64) atomic_uint done;        /* chunks of it that have finished */
static _Alignas(64) atomic_uint sleepers;
static atomic_int stopping;
static atomic_int caller_core = -1;          /* of who published last */
static _Atomic double crowded;               /* until when nobody is woken */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t running = PTHREAD_MUTEX_INITIALIZER;
static int users; /* devices that have started the pool */
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* Takes a chunk of a part of kernel number id; gives how many were left, 0 where there was none. */
static unsigned take(unsigned part, unsigned id) {
  atomic_ullong *left = &parts[part].left;
  unsigned long long t = atomic_load_explicit(left, memory_order_acquire);
  do {
    if ((unsigned)(t >> 32) != id || (unsigned)t == 0) return 0;
  } while (!atomic_compare_exchange_weak_explicit(left, &t, t - 1, memory_order_acq_rel, memory_order_acquire));
  return (unsigned)t;
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

/* Is this thread on the core of the one that would wait for it? */
static int is_beside_caller(void) {
#ifdef __linux__
  return sched_getcpu() == atomic_load_explicit(&caller_core, memory_order_relaxed);
#else
  return 0;
#endif
}
static void tell_crowded(double now) { atomic_store_explicit(&crowded, now + CROWDED_MS, memory_order_relaxed); }

/* What a thread did of a command: a row each, while somebody watches: which command and on which core as one number (ROW),
   when it began and ended, and where counters are read, these; -1 where there are none. Rows are narrow: what they cost is
   most of all the memory that the system gives for them, page by page. Each thread has a part of that, which begins with how
   many rows there are: none waits for a line that another one writes, and nobody looks at what others wrote while commands
   run. */
#define SOFT 3 /* counted by the system: page faults, turns that others took, milliseconds on a core */
#define HARD 3 /* by the processor: cycles, instructions, cache misses */
#define COUNTERS (SOFT + HARD)
#define ROW(command, core) ((command) << 12 | (unsigned)((core) + 1))
#define ROWS_HEAD 16 /* words of a part before its rows */
typedef struct { uint32_t id; float begin, end, counts[]; } row_t;
static uint32_t *rows; /* set by who runs commands, before it publishes any */
static int row_words, rows_part, rows_threads, rows_count; /* words of a row and of a part, parts, whether counters are read */
static double rows_start;
static uint32_t row_command;

#ifdef HAS_COUNTERS
static const uint64_t counted[HARD] = {PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_HW_CACHE_MISSES};
static __thread int counter_fds[HARD]; /* 0 not tried, -1 refused */
static int open_counter(int i, int group) {
  struct perf_event_attr a;
  memset(&a, 0, sizeof a);
  a.size = sizeof a;
  a.type = PERF_TYPE_HARDWARE;
  a.config = counted[i];
  a.exclude_kernel = a.exclude_hv = 1;
  a.read_format = PERF_FORMAT_GROUP;
  return (int)syscall(SYS_perf_event_open, &a, 0, -1, group, PERF_FLAG_FD_CLOEXEC);
}
static void read_hard(double *out) {
  uint64_t values[1 + HARD];
  int leader = -1;
  for (int i = 0; i < HARD; i++) {
    if (counter_fds[i] == 0) counter_fds[i] = open_counter(i, leader);
    if (leader < 0 && counter_fds[i] > 0) leader = counter_fds[i];
  }
  if (leader < 0 || read(leader, values, sizeof values) < (int)(2 * sizeof *values)) return;
  for (int i = 0, k = 1; i < HARD && k <= (int)values[0]; i++) if (counter_fds[i] > 0) out[i] = (double)values[k++];
}
static void close_counters(void) {
  for (int i = HARD - 1; i >= 0; i--) {
    if (counter_fds[i] > 0) close(counter_fds[i]);
    counter_fds[i] = 0;
  }
}
#else
static void read_hard(double *out) { (void)out; }
static void close_counters(void) {}
#endif
static void read_counters(double *out) {
  for (int i = 0; i < COUNTERS; i++) out[i] = -1;
#ifdef RUSAGE_THREAD
  struct rusage used;
  if (getrusage(RUSAGE_THREAD, &used) == 0) {
    out[0] = (double)(used.ru_minflt + used.ru_majflt);
    out[1] = (double)(used.ru_nvcsw + used.ru_nivcsw);
  }
#endif
#ifdef CLOCK_THREAD_CPUTIME_ID
  struct timespec t;
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0) out[2] = t.tv_sec * 1e3 + t.tv_nsec / 1e6;
#endif
  read_hard(out + SOFT);
}

/* Which of the counters of a row there are, as bits; why the first of those of the processor is not. */
int dino_counters(char *error, int size) {
  double counts[COUNTERS];
  int found = 0;
  read_counters(counts);
  for (int i = 0; i < SOFT; i++) if (counts[i] >= 0) found |= 1 << i;
#ifdef HAS_COUNTERS
  for (int i = 0; i < HARD; i++) {
    int fd = open_counter(i, -1);
    if (fd >= 0) {
      found |= 1 << (SOFT + i);
      close(fd);
    } else if (error[0] == 0) snprintf(error, size, "%s", strerror(errno));
  }
#else
  snprintf(error, size, "this system has no perf_event_open");
#endif
  return found;
}

/* Begins the row of a thread for the command that runs; NULL where there is no room. before has what counters say. */
static row_t *begin_row(unsigned thread, double now, double *before) {
  uint32_t *part = rows + (size_t)thread * rows_part;
  if (thread >= (unsigned)rows_threads) return NULL;
  int at = ROWS_HEAD + (int)part[0] * row_words, core = -1;
  if (at + row_words > rows_part) return NULL;
  part[0]++;
  row_t *row = (row_t *)(part + at);
#ifdef __linux__
  core = sched_getcpu();
#endif
  row->id = ROW(row_command, core);
  row->begin = (float)(now - rows_start);
  if (rows_count) read_counters(before);
  return row;
}
/* Ends it for now: before the chunk is counted as done, since nobody waits for the thread itself. */
static void end_row(row_t *row, const double *before, double now) {
  row->end = (float)(now - rows_start);
  if (!rows_count) return;
  double counts[COUNTERS];
  read_counters(counts);
  for (int i = 0; i < COUNTERS; i++) row->counts[i] = counts[i] >= 0 ? (float)(counts[i] - before[i]) : -1;
}

/* Takes chunks of kernel number id until none is left: those of the thread's own part, then of the next ones; gives how many
   it took. now is the time, 0 where it is not known. */
static unsigned work(unsigned thread, unsigned id, double now) {
  row_t *row = NULL;
  unsigned taken = 0;
  double before[COUNTERS];
  /* one of a later kernel does no harm: no part has chunks of this one then */
  unsigned count = atomic_load_explicit(&part_count, memory_order_relaxed);
  for (unsigned passed = 0, part = thread % count; passed < count;) {
    unsigned left = take(part, id);
    if (left == 0) {
      passed++;
      part = part + 1 == count ? 0 : part + 1;
      continue;
    }
    command_t *c = current; /* stays until this chunk is counted as done */
    if (rows && !row) row = begin_row(thread, now ? now : now_ms(), before);
    uint64_t i = c->chunks * (part + 1) / count - left;
    int begin = (int)(c->extent * i / c->chunks), end = (int)(c->extent * (i + 1) / c->chunks);
    ((kernel_t)c->fn)((void **)c->args, (const unsigned long long *)(c->args + c->nbufs), begin, end);
    if (row) end_row(row, before, now_ms());
    atomic_fetch_add_explicit(&done, 1, memory_order_acq_rel);
    taken++;
  }
  return taken;
}

static void *worker(void *arg) {
  unsigned thread = (unsigned)(uintptr_t)arg, seen = begins[thread];
  for (;;) {
    int spins = 0;
    double end = 0;
    unsigned now;
    while ((now = atomic_load(&published)) == seen && !atomic_load(&stopping)) {
      if (++spins % LOOKS != 0) { relax(); continue; }
      double ms = now_ms();
      if (end == 0) end = ms + SPIN_MS;
      if (is_beside_caller()) tell_crowded(ms);
      else if (ms < end) continue;
      pthread_mutex_lock(&lock);
      atomic_fetch_add(&sleepers, 1);
      while (atomic_load(&published) == seen && !atomic_load(&stopping)) pthread_cond_wait(&wake, &lock);
      atomic_fetch_sub(&sleepers, 1);
      pthread_mutex_unlock(&lock);
    }
    if (atomic_load(&stopping)) {
      close_counters();
      return NULL;
    }
    seen = now;
    if (is_beside_caller()) tell_crowded(now_ms());
    else (void)work(thread, now, 0);
  }
}

/* Who shares the first of n commands from c on, at time now. */
enum { NOBODY, THOSE_AWAKE, THOSE_WOKEN };
static int helpers_of(const command_t *c, int n, double now) {
  unsigned asleep = atomic_load(&sleepers);
  int awake = asleep < (unsigned)worker_count ? THOSE_AWAKE : NOBODY;
  if (asleep == 0 || now < atomic_load_explicit(&crowded, memory_order_relaxed)) return awake;
  uint64_t ns = 0;
  for (; n > 0 && ns < WAKE_NS; n--, c = (const command_t *)((const uint64_t *)c + c->words)) {
    if (c->chunks > 1) ns += c->ns;
  }
  return ns < WAKE_NS ? awake : THOSE_WOKEN;
}

static void wake_all(void) {
  pthread_mutex_lock(&lock);
  pthread_cond_broadcast(&wake);
  pthread_mutex_unlock(&lock);
}

/* Keeps what a kernel takes in one thread: less at once, more by and by, since what took long may have been put aside. */
static void keep_ns(command_t *c, double ms) {
  uint64_t ns = (uint64_t)(ms * 1e6);
  c->ns = ns < c->ns ? ns : c->ns + c->ns / 8 + 1;
}

/* Publishes a kernel as number id, takes chunks of it, and waits until all are done. */
static void share(command_t *c, unsigned id, int helpers, double now) {
  current = c;
  atomic_store(&done, 0);
  unsigned count = c->chunks <= (unsigned)worker_count ? (unsigned)c->chunks : (unsigned)worker_count + 1;
  atomic_store_explicit(&part_count, count, memory_order_relaxed);
  for (unsigned p = 0; p < count; p++) {
    uint64_t size = c->chunks * (p + 1) / count - c->chunks * p / count;
    atomic_store_explicit(&parts[p].left, (unsigned long long)id << 32 | size, memory_order_release);
  }
#ifdef __linux__
  atomic_store_explicit(&caller_core, sched_getcpu(), memory_order_relaxed);
#endif
  atomic_store(&published, id);
  if (helpers == THOSE_WOKEN) wake_all();
  double began = now_ms();
  unsigned taken = work(0, id, now);
  if (taken > 0) keep_ns(c, (now_ms() - began) * (double)c->chunks / taken);
  for (int spins = 0; atomic_load_explicit(&done, memory_order_acquire) != c->chunks; spins++) {
    if (spins < SPIN) relax();
    else sched_yield();
  }
}

/* Runs n commands in order; who calls it holds the lock. */
static void run_all(void *commands, int n, double *ends) {
  static unsigned id;
  command_t *c = commands;
  double start = ends ? now_ms() : 0, now = start;
  rows_start = start;
  for (int k = 0; k < n; k++, row_command++, c = (command_t *)((uint64_t *)c + c->words)) {
    int is_split = c->chunks > 1 && worker_count > 0;
    if (is_split && !ends) now = now_ms();
    int helpers = is_split ? helpers_of(c, n - k, now) : NOBODY;
    if (helpers != NOBODY) {
      share(c, ++id, helpers, now);
      if (ends) ends[k] = (now = now_ms()) - start;
      continue;
    }
    double before[COUNTERS], began = now;
    row_t *row = rows ? begin_row(0, now, before) : NULL;
    ((kernel_t)c->fn)((void **)c->args, (const unsigned long long *)(c->args + c->nbufs), 0, (int)c->extent);
    if (ends || is_split) now = now_ms();
    if (is_split) keep_ns(c, now - began);
    if (ends) ends[k] = now - start;
    if (row) end_row(row, before, now);
  }
}

/* Runs n commands in order; where there is room for it, tells when each ended, in milliseconds from the start. One caller
   at a time: others wait. */
void dino_run(void *commands, int n, double *ends) {
  pthread_mutex_lock(&running);
  run_all(commands, n, ends);
  pthread_mutex_unlock(&running);
}

/* The same, and what each thread did of each command, in rows behind those that are there: into has parts of part words
   for so many threads; part is negative where the counters are read too. The first command is number first in rows. */
void dino_run_watched(void *commands, int n, double *ends, uint32_t *into, int part, int threads, int first) {
  pthread_mutex_lock(&running);
  rows_count = part < 0;
  row_words = 3 + (rows_count ? COUNTERS : 0);
  rows_part = part < 0 ? -part : part;
  rows_threads = threads;
  row_command = (uint32_t)first;
  rows = into;
  run_all(commands, n, ends);
  rows = NULL;
  pthread_mutex_unlock(&running);
}

/* Has the system give all pages of new memory at once, which takes a small part of what one after the other does when each is
   first written to. Where it cannot, they come then. */
void dino_populate(char *memory, uint64_t nbytes) {
#ifdef __linux__
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = ((uintptr_t)memory + page - 1) / page * page;
  uintptr_t end = ((uintptr_t)memory + nbytes) / page * page;
  if (begin < end) (void)madvise((void *)begin, end - begin, 23 /* MADV_POPULATE_WRITE, of Linux 5.14 */);
#else
  (void)memory;
  (void)nbytes;
#endif
}

/* Keeps this library where it is: threads may still wait in it, and memory come back to it, when the last module that
   opened it ends, without closing its device, as workers and test files do. */
static void stay(void) {
  Dl_info own;
  if (dladdr((void *)&worker_count, &own)) dlopen(own.dli_fname, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

/* Sees to a pool of at least so many threads, the caller counted; gives how many there are. */
int dino_start(int threads) {
  sigset_t all, old;
  stay();
  if (threads > MAX_THREADS) threads = MAX_THREADS;
  pthread_mutex_lock(&running);
  users++;
  atomic_store(&stopping, 0);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  while (worker_count < threads - 1) {
    begins[worker_count + 1] = atomic_load(&published);
    void *thread = (void *)(uintptr_t)(worker_count + 1);
    if (pthread_create(&workers[worker_count], NULL, worker, thread) != 0) break;
    worker_count++;
  }
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  threads = worker_count + 1;
  pthread_mutex_unlock(&running);
  return threads;
}

/* Joins the threads when the last user stops. */
void dino_stop(void) {
  pthread_mutex_lock(&running);
  if (--users == 0) {
    pthread_mutex_lock(&lock);
    atomic_store(&stopping, 1);
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&lock);
    while (worker_count > 0) pthread_join(workers[--worker_count], NULL);
  }
  pthread_mutex_unlock(&running);
}

/* What tells this processor from others, as far as compiled code can notice; gives the length. */
int dino_cpu(char *out, int size) {
  static const char *keys[] = {"model name", "flags", "cpu family", "model\\t", "Features", "CPU implementer", "CPU part"};
  int length = 0, found = 0;
  FILE *f = fopen("/proc/cpuinfo", "r");
  if (f) {
    char line[8192];
    while (fgets(line, sizeof line, f) && !(line[0] == '\\n' && found)) {
      for (unsigned i = 0; i < sizeof keys / sizeof *keys; i++) {
        int n = (int)strlen(line);
        if (strncmp(line, keys[i], strlen(keys[i])) != 0 || length + n >= size) continue;
        memcpy(out + length, line, n);
        length += n;
        found = 1;
      }
    }
    fclose(f);
  }
  return length;
}

#ifdef __linux__
/* Bytes of the last-level cache as the kernel tells them: what processors say of themselves is wrong in some machines. */
static double last_cache(void) {
  double bytes = 0;
  for (int i = 0; i < 8; i++) {
    char path[80], unit = 0;
    int level = 0;
    long size = 0;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
    FILE *f = fopen(path, "r");
    if (!f) break;
    if (fscanf(f, "%d", &level) != 1) level = 0;
    fclose(f);
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
    f = level < 3 ? 0 : fopen(path, "r");
    if (!f) continue;
    if (fscanf(f, "%ld%c", &size, &unit) >= 1) bytes = size * (unit == 'K' ? 1024.0 : unit == 'M' ? 1048576.0 : 1.0);
    fclose(f);
  }
  return bytes;
}
#endif

/* 0 processors that this process may use, 1 bytes of first-level data cache, 2 of second level, 3 of memory, 4 of last level; 5 threads. */
double dino_number(int what) {
#ifdef __linux__
  if (what == 0) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  }
  if (what == 4) return last_cache();
#endif
#ifdef _SC_LEVEL1_DCACHE_SIZE
  if (what == 1) return (double)sysconf(_SC_LEVEL1_DCACHE_SIZE);
  if (what == 2) return (double)sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
  if (what == 0) return (double)sysconf(_SC_NPROCESSORS_ONLN);
  if (what == 5) return worker_count + 1;
  if (what == 3) return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  return 0;
}

/* Opens a compiled object; on failure gives 0 and the reason. */
uint64_t dino_open(const char *path, char *error, int size) {
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) snprintf(error, size, "%s", dlerror());
  return (uint64_t)(uintptr_t)handle;
}
uint64_t dino_symbol(uint64_t handle, const char *name) {
  return (uint64_t)(uintptr_t)dlsym((void *)(uintptr_t)handle, name);
}

${MEMORY_SOURCE}
/* Memory that ends where a page without access begins, and starts at most a page behind one: for tests. */
static uint64_t page_size(void) { return (uint64_t)sysconf(_SC_PAGESIZE); }
static uint64_t whole_pages(uint64_t nbytes) { return round_up(nbytes, page_size()); }

uint64_t dino_alloc_guarded(uint64_t nbytes) {
  uint64_t page = page_size(), body = whole_pages(nbytes);
  char *p = mmap(NULL, body + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return 0;
  if (body > 0 && mprotect(p + page, body, PROT_READ | PROT_WRITE) != 0) {
    munmap(p, body + 2 * page);
    return 0;
  }
  memset(p + page, 0xff, body); /* all floats are NaN */
  return (uint64_t)(uintptr_t)p + page + body - nbytes;
}
void dino_free_guarded(uint64_t p, uint64_t nbytes) {
  uint64_t page = page_size(), body = whole_pages(nbytes);
  munmap((void *)(uintptr_t)(p + nbytes - body - page), body + 2 * page);
}

void dino_copy_in(uint64_t to, const void *from, uint64_t n) { memcpy((void *)(uintptr_t)to, from, n); }
void dino_copy_out(void *to, uint64_t from, uint64_t n) { memcpy(to, (const void *)(uintptr_t)from, n); }
void dino_copy(uint64_t to, uint64_t from, uint64_t n) {
  memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, n);
}
`;
