// The start of every unit with tensors of PyTorch. As a file of its own it can be precompiled.

#include "replay/prelude.h"
#include "replay/torch.h"
