// A source with names of its own that the other one has too.
static int state = 100;
__device__ float bias() { return 100.0f; }
int other() { return state; }
int main() { return other(); }
