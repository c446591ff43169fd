// Only its name looks like a vector of integers.
#pragma once
struct Shape { int rows, columns; };
