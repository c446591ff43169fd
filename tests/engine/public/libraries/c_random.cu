// Random numbers of both kinds of generators, in kernels and from the host.
#include <curand.h>
#include <curand_kernel.h>

template <class State>
__global__ void draw(float* out, unsigned long long seed, unsigned long long subsequence,
                     unsigned long long offset) {
  State state;
  curand_init(seed, subsequence, offset, &state);
  for (int i = 0; i < 9; i++) out[i] = curand_uniform(&state);
  curand_init(seed, subsequence, offset, &state);
  for (int i = 0; i < 9; i++) out[9 + i] = curand_normal(&state);
}
__global__ void draw_four(float* out) {
  curandStatePhilox4_32_10_t state;
  curand_init(42, 5, 1, &state);
  curand4(&state);
  float4 u = curand_uniform4(&state), n = curand_normal4(&state);
  out[0] = u.x, out[1] = u.y, out[2] = u.z, out[3] = u.w;
  out[4] = n.x, out[5] = n.y, out[6] = n.z, out[7] = n.w;
}

void run_random(int which, float* out) {
  if (which == 0) {
    draw<curandStatePhilox4_32_10_t><<<1, 1>>>(out, 8589935828ull, 2, 6);
    draw<curandState><<<1, 1>>>(out + 18, 4294980181903125ull, 1000003, 1);
    draw_four<<<1, 1>>>(out + 36);
    return;
  }
  curandGenerator_t generator;
  curandCreateGenerator(&generator, which == 1 ? CURAND_RNG_PSEUDO_DEFAULT : CURAND_RNG_PSEUDO_PHILOX4_32_10);
  curandSetPseudoRandomGeneratorSeed(generator, 1234ULL);
  curandGenerateUniform(generator, out, 5000);
  curandSetPseudoRandomGeneratorSeed(generator, 1234ULL);
  curandGenerateNormal(generator, out + 5000, 8, 0.f, 1.f);
  curandSetGeneratorOffset(generator, 5);
  curandGenerateUniform(generator, out + 5008, 4);
  curandGenerateUniform(generator, out + 5012, 3);
  // On behind normal numbers.
  curandSetGeneratorOffset(generator, 0);
  curandGenerateNormal(generator, out + 6000, 8, 0.f, 1.f);
  curandGenerateUniform(generator, out + 6008, 4);
  curandGenerateNormal(generator, out + 6012, 6, 0.f, 1.f);
  curandGenerateUniform(generator, out + 6018, 4);
  curandSetGeneratorOffset(generator, 0);
  curandGenerateUniform(generator, out + 6022, 2);
  curandGenerateNormal(generator, out + 6024, 4, 0.f, 1.f);
  curandGenerateUniform(generator, out + 6028, 4);
  curandDestroyGenerator(generator);
}
