// Attention: softmax(scale * K q + mask) V for each query (ggml's FLASH_ATTN_EXT).
#pragma once

#include "plan.h"

namespace kernels {

// Any types of keys and values that ggml can turn into floats; queries and result are floats.
bool can_attend(const Tensor * op);
size_t attention_work(const Tensor * op, int n_threads);
void attention(const ComputeParams * params, Tensor * op);

}  // namespace kernels
