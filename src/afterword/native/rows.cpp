// Products with rows as ggml lays them out: keys and values, adapters, small matrices, types without tiles.

#include "dense.h"
#include "routing.h"
#include "weights.h"

namespace kernels {

using namespace ggml_abi;

constexpr int64_t RUN = 32;      // rows of a unit of work
constexpr int TOGETHER = 3;      // columns at once: twelve sums, three values and a row fill AVX2's registers

static bool is_dense(int32_t type) { return type == F32 || type == F16 || type == BF16; }

bool can_multiply_rows(const Tensor * op) {
    const Tensor *a = op->src[0], *x = op->src[1];
    if (x->type != F32 || x->nb[0] != 4 || op->type != F32 || op->nb[0] != 4) return false;
    if (is_dense(a->type)) return a->nb[0] == (a->type == F32 ? 4u : 2u);
    const TypeTraitsCpu * traits = ggml_get_type_traits_cpu(a->type);
    return traits->vec_dot != nullptr && ggml_get_type_traits_cpu(traits->vec_dot_type)->from_float != nullptr;
}

// `n_rows` rows, `row_bytes` apart, times n columns. At the edges a row or column is computed twice and stored once.
template <class E, class In, class Out>
static void multiply_dense(const char * rows, size_t row_bytes, int64_t first, int64_t last, int64_t n, int64_t n_columns, In in, Out out) {
    using Row = const typename E::Storage *;
    for (int64_t c = 0; c < n_columns; c += TOGETHER) {
        const int64_t n_c = std::min<int64_t>(TOGETHER, n_columns - c);
        const float * x[TOGETHER];
        float * to[TOGETHER];
        for (int64_t i = 0; i < n_c; i++) x[i] = in(c + i), to[i] = out(c + i);
        for (int64_t r = first; r < last; r += 4) {
            const int64_t n_r = std::min<int64_t>(4, last - r);
            Row row[4];
            for (int64_t i = 0; i < 4; i++) row[i] = (Row)(rows + (r + std::min(i, n_r - 1)) * row_bytes);
            float sums[4 * TOGETHER];
            switch (n_c) {
                case 1: dense_rows<E, 1>(row, n, x, sums); break;
                case 2: dense_rows<E, 2>(row, n, x, sums); break;
                default: dense_rows<E, 3>(row, n, x, sums); break;
            }
            for (int64_t i = 0; i < n_c; i++) std::memcpy(to[i] + r, sums + 4 * i, n_r * 4);
        }
    }
}

// Rows of a quantised type by ggml's own dot product, one element at a time.
template <class In, class Out>
static void multiply_quantized(VecDot dot, const char * rows, size_t row_bytes, int64_t first, int64_t last, int64_t n, int64_t n_columns, In in, Out out) {
    for (int64_t r = first; r < last; r++)
        for (int64_t c = 0; c < n_columns; c++) dot((int)n, out(c) + r, 0, rows + r * row_bytes, 0, in(c), 0, 1);
}

// What columns look like to the rows: as they are, or in the form that the type's dot product takes.
struct Source {
    const Tensor * x;
    const TypeTraitsCpu * traits;  // null: as they are
    char * work;
    size_t bytes;  // of a converted column

    Source(const Tensor * op, char * work_) : x(op->src[1]), traits(nullptr), work(work_), bytes(0) {
        if (is_dense(op->src[0]->type)) return;
        traits = ggml_get_type_traits_cpu(op->src[0]->type);
        bytes = ggml_row_size(traits->vec_dot_type, x->ne[0]);
    }
    int64_t n_columns() const { return x->ne[1] * x->ne[2] * x->ne[3]; }
    size_t work_bytes() const { return bytes * n_columns(); }

    void convert(const ComputeParams * params) const {
        if (traits == nullptr) return;
        const FromFloat from_float = ggml_get_type_traits_cpu(traits->vec_dot_type)->from_float;
        const Places in(x);
        int64_t first, last;
        part_of(params, n_columns(), first, last);
        for (int64_t c = first; c < last; c++) from_float(in(c), work + c * bytes, x->ne[0]);
    }
};

template <class Column, class Out>
static void multiply(const Tensor * a, const Source & source, const char * rows, int64_t first, int64_t last, int64_t n_columns, Column column, Out out) {
    const Places places(source.x);
    const auto as_is = [&](int64_t c) { return (const float *)places(column(c)); };
    switch (a->type) {
        case F32: return multiply_dense<Single>(rows, a->nb[1], first, last, a->ne[0], n_columns, as_is, out);
        case F16: return multiply_dense<Half>(rows, a->nb[1], first, last, a->ne[0], n_columns, as_is, out);
        case BF16: return multiply_dense<Brain>(rows, a->nb[1], first, last, a->ne[0], n_columns, as_is, out);
        default:
            return multiply_quantized(source.traits->vec_dot, rows, a->nb[1], first, last, a->ne[0], n_columns,
                                      [&](int64_t c) { return source.work + column(c) * source.bytes; }, out);
    }
}

size_t mul_mat_rows_work(const Tensor * op) { return Shares::BYTES + Source(op, nullptr).work_bytes(); }

void mul_mat_rows(const ComputeParams * params, Tensor * op) {
    const Tensor *a = op->src[0], *x = op->src[1];
    const Shares shares(params);
    const Source source(op, (char *)params->wdata + Shares::BYTES);
    source.convert(params);
    shares.barrier();
    // A matrix of keys or values serves a group of heads: their columns are multiplied together.
    const int64_t r2 = x->ne[2] / a->ne[2], r3 = x->ne[3] / a->ne[3], n1 = x->ne[1];
    const int64_t n_columns = n1 * r2 * r3, n_runs = (a->ne[1] + RUN - 1) / RUN, n_matrices = a->ne[2] * a->ne[3];
    const Places out(op);
    shares.each(n_matrices * n_runs, 1, [&](int64_t unit, int64_t) {
        const int64_t matrix = unit / n_runs, first = unit % n_runs * RUN, last = std::min(first + RUN, a->ne[1]);
        const int64_t i2 = matrix % a->ne[2], i3 = matrix / a->ne[2];
        const auto column = [&](int64_t c) {
            if (r3 == 1) return (i3 * x->ne[2] + i2 * r2) * n1 + c;
            const int64_t group = c / n1;
            return ((i3 * r3 + group / r2) * x->ne[2] + i2 * r2 + group % r2) * n1 + c % n1;
        };
        multiply(a, source, (const char *)a->data + i2 * a->nb[2] + i3 * a->nb[3], first, last, n_columns, column,
                 [&](int64_t c) { return out(column(c)); });
    });
}

size_t mul_mat_id_rows_work(const Tensor * op) {
    return Shares::BYTES + Routing::bytes(op) + Source(op, nullptr).work_bytes();
}

void mul_mat_id_rows(const ComputeParams * params, Tensor * op) {
    const Tensor * a = op->src[0];
    const Shares shares(params);
    char * work = (char *)params->wdata + Shares::BYTES;
    Routing routing(op, work);
    if (params->ith == 0) routing.fill(op);
    const Source source(op, work + Routing::bytes(op));
    source.convert(params);
    shares.barrier();
    const int64_t n_runs = (a->ne[1] + RUN - 1) / RUN;
    shares.each(routing.n_experts * n_runs, 1, [&](int64_t unit, int64_t) {
        const int64_t expert = unit / n_runs, first = unit % n_runs * RUN, last = std::min(first + RUN, a->ne[1]);
        const Routed * routed = routing.routed + routing.starts[expert];
        const int64_t n = routing.starts[expert + 1] - routing.starts[expert];
        multiply(a, source, (const char *)a->data + expert * a->nb[2], first, last, n,
                 [&](int64_t c) { return Routing::source(op, routed[c]); },
                 [&](int64_t c) { return Routing::result(op, routed[c]); });
    });
}

}  // namespace kernels
