// The namespace of libcu++ as another name for the C++ library's.
#pragma once

namespace cuda {
namespace std {
using namespace ::std;
}  // namespace std
}  // namespace cuda
