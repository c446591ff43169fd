// One step of Adam, the tenth: parameters and both moments.

#include "sized.cuh"

constexpr int BETA1 = 1, BETA2 = 2, EPSILON = 3, RATE = 4, CORRECTION = 5, MOMENT = 6, PARAMETER = 7;
constexpr int BY_EXP = 1, ROOTS_APART = 2, DIFFERENCE = 3;

// A thread per element.
template <class T>
__global__ void adam_kernel(Change change, const float* parameter, const float* gradient,
                            const float* first, const float* second, T* next_parameter,
                            T* next_first, T* next_second, int rows, int cols)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= rows * cols) {
        return;
    }
    int row = index / cols, column = index % cols;
    int way = way_of(change);
    float beta1 = changed(change, BETA1, -1, -1, 0.875f);
    float beta2 = changed(change, BETA2, -1, -1, 0.9375f);
    float g = gradient[index];
    float m = way == DIFFERENCE ? first[index] + (1.0f - beta1) * (g - first[index])
                                : beta1 * first[index] + (1.0f - beta1) * g;
    float v = beta2 * second[index] + (1.0f - beta2) * g * g;
    m = changed(change, MOMENT, row, column, m);
    float of_first = 1.0f - (way == BY_EXP ? expf(10.0f * logf(beta1)) : powf(beta1, 10.0f));
    float of_second = 1.0f - (way == BY_EXP ? expf(10.0f * logf(beta2)) : powf(beta2, 10.0f));
    of_first = changed(change, CORRECTION, -1, -1, of_first);
    float root = way == ROOTS_APART ? sqrtf(v) / sqrtf(of_second) : sqrtf(v / of_second);
    float rate = changed(change, RATE, -1, -1, 1e-2f);
    float step = rate * (m / of_first) / (root + changed(change, EPSILON, -1, -1, 1e-8f));
    next_parameter[index] = T(changed(change, PARAMETER, row, column, parameter[index] - step));
    next_first[index] = T(m);
    next_second[index] = T(v);
}

template <class T>
void adam(Change change, const float* parameter, const float* gradient, const float* first,
          const float* second, T* next_parameter, T* next_first, T* next_second, int rows, int cols)
{
    adam_kernel<T><<<(rows * cols + 31) / 32, 32>>>(change, parameter, gradient, first, second,
                                                    next_parameter, next_first, next_second, rows,
                                                    cols);
}
