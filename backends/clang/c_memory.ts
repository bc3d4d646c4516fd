/**
 * Memory of the CLANG device, as C text of its runtime. Blocks lie side by side in arenas of 64 MB, the lowest place that is
 * free and large enough first, so that pages of 2 MB hold them where the system has such: new memory comes in pages when it
 * is first written to, and to get one of 4 kB takes up to 15 us on a virtual machine, one of 2 MB about 100 (a weight of 3 MB
 * 11 ms beside 0.2). What is larger than a half of an arena is mapped alone. Pages that are free as a whole go back to the
 * system, arenas as well.
 *
 * @module
 */

/** The source: `dino_alloc` and `dino_free`. */
export const MEMORY_SOURCE: string = `
#define HUGE_PAGE (2ull << 20)
#define ARENA (64ull << 20)
#define GRAIN 64ull /* blocks begin at multiples of it */

typedef struct { uint64_t begin, end; } span_t;
typedef struct { span_t whole, *free; int count, room; } arena_t; /* what is free, by address, no two side by side */
static arena_t *arenas;
static int arena_count, arena_room;
static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t round_up(uint64_t n, uint64_t unit) { return (n + unit - 1) / unit * unit; }

/* Maps whole large pages, at a multiple of their size; 0 where the system has no room. */
static uint64_t map_memory(uint64_t nbytes) {
  uint64_t all = nbytes + HUGE_PAGE;
  char *p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return 0;
  uint64_t begin = round_up((uint64_t)(uintptr_t)p, HUGE_PAGE), before = begin - (uint64_t)(uintptr_t)p;
  if (before > 0) munmap(p, before);
  munmap((char *)(uintptr_t)(begin + nbytes), all - before - nbytes);
#ifdef MADV_HUGEPAGE
  madvise((void *)(uintptr_t)begin, nbytes, MADV_HUGEPAGE);
#endif
  return begin;
}

/* Makes room for one more element behind count of them. */
static int grow(void **list, int count, int *room, size_t size) {
  if (count < *room) return 1;
  int more = *room > 0 ? 2 * *room : 8;
  void *made = realloc(*list, more * size);
  if (!made) return 0;
  *list = made;
  *room = more;
  return 1;
}

/* A new arena that has room for so many bytes: a small one where the system has no address space for more. */
static arena_t *add_arena(uint64_t nbytes) {
  uint64_t size = ARENA, begin = map_memory(size);
  if (!begin) begin = map_memory(size = round_up(nbytes, HUGE_PAGE));
  if (!begin) return NULL;
  arena_t a = {{begin, begin + size}, NULL, 1, 0};
  if (grow((void **)&arenas, arena_count, &arena_room, sizeof *arenas) &&
      grow((void **)&a.free, 0, &a.room, sizeof *a.free)) {
    a.free[0] = a.whole;
    arenas[arena_count] = a;
    return &arenas[arena_count++];
  }
  free(a.free);
  munmap((void *)(uintptr_t)begin, size);
  return NULL;
}

/* The first place of an arena with so many bytes; 0 where it has none. */
static uint64_t take_place(arena_t *a, uint64_t nbytes) {
  for (int i = 0; i < a->count; i++) {
    span_t *s = &a->free[i];
    if (s->end - s->begin < nbytes) continue;
    uint64_t at = s->begin;
    s->begin += nbytes;
    if (s->begin == s->end) memmove(s, s + 1, (--a->count - i) * sizeof *s);
    return at;
  }
  return 0;
}

/* Adds a block to what is free; 0 where there is no room to say so: then it is lost, and nothing else. */
static int give_place(arena_t *a, uint64_t begin, uint64_t end) {
  int i = 0, high = a->count;
  while (i < high) {
    int middle = (i + high) / 2;
    if (a->free[middle].begin < begin) i = middle + 1;
    else high = middle;
  }
  int joins = i > 0 && a->free[i - 1].end == begin, joined = i < a->count && a->free[i].begin == end;
  if (joins && joined) {
    a->free[i - 1].end = a->free[i].end;
    memmove(&a->free[i], &a->free[i + 1], (--a->count - i) * sizeof *a->free);
  } else if (joins) a->free[i - 1].end = end;
  else if (joined) a->free[i].begin = begin;
  else {
    if (!grow((void **)&a->free, a->count, &a->room, sizeof *a->free)) return 0;
    memmove(&a->free[i + 1], &a->free[i], (a->count++ - i) * sizeof *a->free);
    a->free[i] = (span_t){begin, end};
  }
  /* large pages in which nothing is left */
  span_t *s = &a->free[joins ? i - 1 : i];
  uint64_t low = begin / HUGE_PAGE * HUGE_PAGE, top = round_up(end, HUGE_PAGE);
  if (low < s->begin) low += HUGE_PAGE;
  if (top > s->end) top -= HUGE_PAGE;
  if (low < top) madvise((void *)(uintptr_t)low, top - low, MADV_DONTNEED);
  return 1;
}

/* Unmaps an arena. */
static void drop_arena(arena_t *a) {
  munmap((void *)(uintptr_t)a->whole.begin, a->whole.end - a->whole.begin);
  free(a->free);
  *a = arenas[--arena_count];
}

/* Bytes that a block takes: whole large pages where it has a mapping of its own. */
static uint64_t bytes_of(uint64_t nbytes) {
  return round_up(nbytes ? nbytes : 1, nbytes > ARENA / 2 ? HUGE_PAGE : GRAIN);
}

uint64_t dino_alloc(uint64_t nbytes) {
  if (nbytes > (uint64_t)dino_number(3)) return 0;
  uint64_t n = bytes_of(nbytes), at = 0;
  if (nbytes > ARENA / 2) return map_memory(n);
  pthread_mutex_lock(&memory_lock);
  for (int i = 0; i < arena_count && !at; i++) at = take_place(&arenas[i], n);
  if (!at) {
    arena_t *a = add_arena(n);
    if (a) at = take_place(a, n);
  }
  pthread_mutex_unlock(&memory_lock);
  return at;
}

void dino_free(uint64_t p, uint64_t nbytes) {
  uint64_t n = bytes_of(nbytes);
  if (nbytes > ARENA / 2) {
    munmap((void *)(uintptr_t)p, n);
    return;
  }
  pthread_mutex_lock(&memory_lock);
  for (int i = 0; i < arena_count; i++) {
    arena_t *a = &arenas[i];
    if (p < a->whole.begin || p >= a->whole.end) continue;
    if (give_place(a, p, p + n) && a->free[0].begin == a->whole.begin && a->free[0].end == a->whole.end) drop_arena(a);
    break;
  }
  pthread_mutex_unlock(&memory_lock);
}
`;
