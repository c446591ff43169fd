__global__ void
__launch_bounds__(256, 2)
kern(const float* __restrict__ a,
     float* b)
{
}
void run(float* a, float* b)
{
  kern
      <<<
        dim3(1,
             2),  // the grid
        256
      >>>
      (
        a,
        b
      );
}
