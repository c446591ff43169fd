#define REAL float
#define HALF_OF(x) ((x) * 0.5f)
#define fast_expf(x) __expf(x)
#define my_logf(x) logf(x)
#if defined(USE_FLOAT) && FLT_RADIX == 2
static const float limits[] = {-1e30f, 3.0e+5F, .25f, 0X1.8P3f, 1.f16, 100, 0xffu, 1e3};
#endif
template <typename T = float> __device__ T zero() { return T(0.0f); }
template <> __device__ float zero<float>() { return 0.f; }
__device__ REAL f(REAL x) { return HALF_OF(x) + my_logf(x) + rsqrtf(x) + ::fminf(x, 2.f) + static_cast<float>(zero<>()); }
