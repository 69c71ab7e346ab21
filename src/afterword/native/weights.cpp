#include "weights.h"

#include <thread>
#include <vector>

#include "dense.h"
#include "quantized.h"
#include "repack.h"
#include "routing.h"

namespace kernels {

using namespace ggml_abi;

constexpr int MOST_DENSE = 8;  // columns of a product with floats

struct Kind {
    int32_t type;
    bool dense;
    int columns;  // that a row's length is a multiple of
    int offset;
    bool halves;  // whether the offset counts by halves of a block
    size_t (*tile_bytes)(int64_t n);
    void (*pack_row)(uint8_t * tile, int lane, const uint8_t * row, int64_t n);
    void (*product)(const uint8_t * tile, int64_t n_blocks, Columns x, int64_t first, int64_t n, Floats * out);
    void (*dense_product)(const uint8_t * tiles, int64_t n_tiles, int64_t n, const float * const * x, int n_x, Floats * out);
};

// ---- the kinds ------------------------------------------------------------------------------------------------------

template <class F> size_t quantized_tile(int64_t n) { return F::tile_bytes(n / BLOCK); }

template <class F, int BYTES, int M, int QH, int QS>
void pack_simple_row(uint8_t * tile, int lane, const uint8_t * row, int64_t n) {
    pack_simple<F>(tile, lane, row, n / BLOCK, SimpleSource{BYTES, M, QH, QS});
}
template <class F> void pack_super_row(uint8_t * tile, int lane, const uint8_t * row, int64_t n) {
    pack_super_min<F>(tile, lane, row, n / BLOCK);
}
void pack_halves_row(uint8_t * tile, int lane, const uint8_t * row, int64_t n) { pack_super_halves(tile, lane, row, n / BLOCK); }

template <class E> size_t dense_tile(int64_t n) { return (size_t)n * LANES * sizeof(typename E::Storage); }
template <class E> void pack_dense_row(uint8_t * tile, int lane, const uint8_t * row, int64_t n) { pack_dense<E>(tile, lane, row, n); }

// One to eight columns; few columns take several tiles at once, so that additions need not wait for each other.
template <class E, int N> void dense_columns(const uint8_t * tiles, int64_t n_tiles, int64_t n, const float * const * x, Floats * out) {
    constexpr int T = N == 1 ? 4 : N <= 3 ? 2 : 1;
    const auto * tile = (const typename E::Storage *)tiles;
    const size_t stride = (size_t)n * LANES;
    int64_t t = 0;
    for (; t + T <= n_tiles; t += T) dense_tiles<E, N, T>(tile + t * stride, stride, n, x, out + t * N, N);
    for (; t < n_tiles; t++) dense_tiles<E, N, 1>(tile + t * stride, stride, n, x, out + t * N, N);
}
template <class E>
void dense_product(const uint8_t * tiles, int64_t n_tiles, int64_t n, const float * const * x, int n_x, Floats * out) {
    switch (n_x) {
        case 1: return dense_columns<E, 1>(tiles, n_tiles, n, x, out);
        case 2: return dense_columns<E, 2>(tiles, n_tiles, n, x, out);
        case 3: return dense_columns<E, 3>(tiles, n_tiles, n, x, out);
        case 4: return dense_columns<E, 4>(tiles, n_tiles, n, x, out);
        case 5: return dense_columns<E, 5>(tiles, n_tiles, n, x, out);
        case 6: return dense_columns<E, 6>(tiles, n_tiles, n, x, out);
        case 7: return dense_columns<E, 7>(tiles, n_tiles, n, x, out);
        default: return dense_columns<E, 8>(tiles, n_tiles, n, x, out);
    }
}

template <class F> constexpr Kind quantized(Type type, void (*pack_row)(uint8_t *, int, const uint8_t *, int64_t)) {
    return {type, false, F::COLUMNS, F::OFFSET, F::HALVES, quantized_tile<F>, pack_row, tile_product<F>, nullptr};
}
template <class E> constexpr Kind dense(Type type) {
    return {type, true, 1, 0, false, dense_tile<E>, pack_dense_row<E>, nullptr, dense_product<E>};
}

// The numbers are the layout of ggml's blocks: size, and offsets of minimum, fifth bits and quants.
static const Kind KINDS[] = {
    quantized<FormatQ4_0>(Q4_0, pack_simple_row<FormatQ4_0, 18, -1, -1, 2>),
    quantized<FormatQ4_1>(Q4_1, pack_simple_row<FormatQ4_1, 20, 2, -1, 4>),
    quantized<FormatQ5_0>(Q5_0, pack_simple_row<FormatQ5_0, 22, -1, 2, 6>),
    quantized<FormatQ5_1>(Q5_1, pack_simple_row<FormatQ5_1, 24, 2, 4, 8>),
    quantized<FormatQ8_0>(Q8_0, pack_simple_row<FormatQ8_0, 34, -1, -1, 2>),
    quantized<FormatQ4_K>(Q4_K, pack_super_row<FormatQ4_K>),
    quantized<FormatQ5_K>(Q5_K, pack_super_row<FormatQ5_K>),
    quantized<FormatQ6_K>(Q6_K, pack_halves_row),
    dense<Half>(F16),
    dense<Brain>(BF16),
};

const Kind * kind_of(const Tensor * weights) {
    for (const Kind & kind : KINDS)
        if (kind.type == weights->type && weights->ne[0] % kind.columns == 0) return &kind;
    return nullptr;
}

static int64_t tiles_of(const Tensor * weights) { return (weights->ne[1] + LANES - 1) / LANES; }

size_t bytes_of(const Kind * kind, const Tensor * weights) {
    return kind->tile_bytes(weights->ne[0]) * tiles_of(weights) * weights->ne[2] * weights->ne[3];
}

void pack(const Kind * kind, Tensor * weights, const void * rows) {
    const int64_t n_tiles = tiles_of(weights), n_all = n_tiles * weights->ne[2] * weights->ne[3];
    const size_t tile_bytes = kind->tile_bytes(weights->ne[0]), row_bytes = ggml_row_size(weights->type, weights->ne[0]);
    const auto some = [&](int64_t first, int64_t last) {
        for (int64_t t = first; t < last; t++) {
            uint8_t * tile = (uint8_t *)weights->data + t * tile_bytes;
            std::memset(tile, 0, tile_bytes);
            for (int lane = 0; lane < LANES; lane++) {
                const int64_t row = t % n_tiles * LANES + lane;
                if (row >= weights->ne[1]) break;
                kind->pack_row(tile, lane, (const uint8_t *)rows + (t / n_tiles * weights->ne[1] + row) * row_bytes,
                               weights->ne[0]);
            }
        }
    };
    const int64_t n_threads = std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, std::max<int64_t>(1, n_all / 16));
    std::vector<std::thread> threads;
    for (int64_t i = 1; i < n_threads; i++) threads.emplace_back(some, n_all * i / n_threads, n_all * (i + 1) / n_threads);
    some(0, n_all / n_threads);
    for (std::thread & thread : threads) thread.join();
}

// ---- products -------------------------------------------------------------------------------------------------------

// Tiles first..last of a matrix times n columns; `in(c)` is a column of floats, `out(c)` its column of the result.
struct Matrix {
    const Kind * kind;
    const uint8_t * tiles;
    int64_t n, n_rows;  // columns and rows of the matrix

    template <class In, class Out>
    void multiply(int64_t first, int64_t last, Columns x, int64_t n_columns, In in, Out out) const {
        if (kind->dense) return multiply_dense(first, last, n_columns, in, out);
        const size_t tile_bytes = kind->tile_bytes(n);
        Floats sums[MOST_COLUMNS];
        for (int64_t t = first; t < last; t++)
            for (int64_t c = 0; c < n_columns; c += MOST_COLUMNS) {
                const int64_t some = std::min(n_columns - c, MOST_COLUMNS);
                kind->product(tiles + t * tile_bytes, n / BLOCK, x, c, some, sums);
                for (int64_t i = 0; i < some; i++) put(out(c + i), t, sums[i]);
            }
    }

    template <class In, class Out>
    void multiply_dense(int64_t first, int64_t last, int64_t n_columns, In in, Out out) const {
        constexpr int64_t GROUP = 4;
        Floats sums[GROUP * MOST_DENSE];
        for (int64_t t = first; t < last; t += GROUP)
            for (int64_t c = 0; c < n_columns; c += MOST_DENSE) {
                const int64_t some = std::min<int64_t>(n_columns - c, MOST_DENSE), n_tiles = std::min(last - t, GROUP);
                const float * x[MOST_DENSE];
                for (int64_t i = 0; i < some; i++) x[i] = in(c + i);
                kind->dense_product(tiles + t * kind->tile_bytes(n), n_tiles, n, x, (int)some, sums);
                for (int64_t j = 0; j < n_tiles; j++)
                    for (int64_t i = 0; i < some; i++) put(out(c + i), t + j, sums[j * some + i]);
            }
    }

    void put(float * column, int64_t tile, Floats sums) const {
        const int64_t row = tile * LANES, n_left = n_rows - row;
        if (n_left >= LANES) return store(column + row, sums);
        for (int64_t i = 0; i < n_left; i++) column[row + i] = sums[i];
    }
};

static size_t activations_bytes(const Kind * kind, const Tensor * x) {
    return kind->dense ? 0 : x->ne[0] / BLOCK * (x->ne[1] * x->ne[2] * x->ne[3]) * sizeof(Activations) + LINE;
}

// Rounds the columns of `x`; each thread its part. Block b of column c goes to out[b * n_columns + c].
static void quantize(const Kind * kind, const ComputeParams * params, const Tensor * x, Activations * out) {
    if (kind->dense) return;
    const int64_t n_blocks = x->ne[0] / BLOCK, n_columns = x->ne[1] * x->ne[2] * x->ne[3];
    const Places in(x);
    int64_t first, last;
    part_of(params, n_columns * n_blocks, first, last);
    for (int64_t i = first; i < last; i++) {
        const int64_t column = i / n_blocks, block = i % n_blocks;
        quantize_block(in(column) + block * BLOCK, kind->offset, kind->halves, out[block * n_columns + column]);
    }
}

size_t mul_mat_work(const Kind * kind, const Tensor * op) { return Shares::BYTES + activations_bytes(kind, op->src[1]); }

void mul_mat(const Kind * kind, const ComputeParams * params, Tensor * op) {
    const Tensor *weights = op->src[0], *x = op->src[1];
    const Shares shares(params);
    auto * activations = (Activations *)((char *)params->wdata + Shares::BYTES);
    quantize(kind, params, x, activations);
    shares.barrier();
    const int64_t n_columns = x->ne[1] * x->ne[2] * x->ne[3], n_tiles = tiles_of(weights);
    const Matrix matrix{kind, (const uint8_t *)weights->data, weights->ne[0], weights->ne[1]};
    const Places in(x), out(op);
    shares.each(n_tiles, shares.run_of(n_tiles), [&](int64_t first, int64_t last) {
        matrix.multiply(first, last, Columns{activations, n_columns, nullptr}, n_columns, in, out);
    });
}

size_t mul_mat_id_work(const Kind * kind, const Tensor * op) {
    return Shares::BYTES + Routing::bytes(op) + lines(Routing::n_routed(op) * 4) + activations_bytes(kind, op->src[1]);
}

void mul_mat_id(const Kind * kind, const ComputeParams * params, Tensor * op) {
    const Tensor *weights = op->src[0], *x = op->src[1];
    const Shares shares(params);
    char * work = (char *)params->wdata + Shares::BYTES;
    Routing routing(op, work);
    auto * index = (int32_t *)(work + Routing::bytes(op));
    auto * activations = (Activations *)((char *)index + lines(Routing::n_routed(op) * 4));
    if (params->ith == 0) {
        routing.fill(op);
        for (int64_t i = 0; i < routing.starts[routing.n_experts]; i++)
            index[i] = (int32_t)Routing::source(op, routing.routed[i]);
    }
    quantize(kind, params, x, activations);
    shares.barrier();
    const int64_t n_columns = x->ne[1] * x->ne[2] * x->ne[3], n_tiles = tiles_of(weights);
    const Places columns(x);
    // A unit is a tile of an expert; runs do not cross experts, since a run is one tile of a multiple of them.
    shares.each(n_tiles * routing.n_experts, 1, [&](int64_t unit, int64_t) {
        const int64_t expert = unit / n_tiles, tile = unit % n_tiles;
        const int32_t start = routing.starts[expert], n = routing.starts[expert + 1] - start;
        if (n == 0) return;
        const Routed * routed = routing.routed + start;
        const Matrix matrix{kind, (const uint8_t *)weights->data + expert * n_tiles * kind->tile_bytes(weights->ne[0]),
                            weights->ne[0], weights->ne[1]};
        matrix.multiply(
            tile, tile + 1, Columns{activations, n_columns, index + start}, n,
            [&](int64_t c) { return columns(index[start + c]); },
            [&](int64_t c) { return Routing::result(op, routed[c]); });
    });
}

}  // namespace kernels
