__global__ void kern(int* p) {}
#if 0
void dead(int* p) { kern<<<1, 1>>>(p; don't look }
#define NEVER <<<
#elif defined(OTHER)
void other(int* p) { kern<<<2, 1>>>(p); }
#else
void live(int* p) { kern<<<3, 1>>>(p); }
#endif
#ifdef WIDE
void split(long* p) { for (;;) {
  kern<<<4, 1>>>((int*)p);
#else
void split(int* p) { {
  kern<<<5, 1>>>(p);
#endif
  kern<<<6, 1>>>(p);
}}
void inside(int* p, int n) {
  kern<<<
#ifdef WIDE
      n * 2,
#else
      n,
#endif
      1>>>(p);
}
#if 1
void one(int* p) { kern<<<7, 1>>>(p); }
#else
void one(int* p) { kern<<<8, 1>>>(p this is not C++; }
#endif
