// Matrices of weights as this library keeps them, and their products.
#pragma once

#include "plan.h"

namespace kernels {

struct Kind;  // of weights: the functions for one of ggml's types

// The kind that keeps a tensor, or null: its type is left to ggml's own layout.
const Kind * kind_of(const Tensor * weights);
// Bytes of a tensor in tiles.
size_t bytes_of(const Kind * kind, const Tensor * weights);
// Writes a tensor's tiles from ggml's rows.
void pack(const Kind * kind, Tensor * weights, const void * rows);

size_t mul_mat_work(const Kind * kind, const Tensor * op);
void mul_mat(const Kind * kind, const ComputeParams * params, Tensor * op);
size_t mul_mat_id_work(const Kind * kind, const Tensor * op);
void mul_mat_id(const Kind * kind, const ComputeParams * params, Tensor * op);

// Products with rows as ggml lays them out, each element by itself: any type that has a dot product.
bool can_multiply_rows(const Tensor * op);
size_t mul_mat_rows_work(const Tensor * op);
void mul_mat_rows(const ComputeParams * params, Tensor * op);
size_t mul_mat_id_rows_work(const Tensor * op);
void mul_mat_id_rows(const ComputeParams * params, Tensor * op);

}  // namespace kernels
