/* __global__ void not_a_kernel(); */ __global__ /* a */ void /* b */ kern /* c */ (int* p) /* d */ { }
void run(int* p) { kern /* <<< */ <<</* grid */ 1, // block
  2 /* >>> */>>> /* args */ (/* none <<< */ p // p
  ); }
// a line comment that goes on \
   kern<<<1, 2>>>(p);
char quote = '"'; const char* both = "'\"<<<"; // '
int digits = 1'000'000; wchar_t wide = L'<'; const char* u = u8"<<<";
