// Products of a tile of quantised weights with any number of columns of activations.
//
// Every element of the result is reduced by itself: its blocks in ascending order, each block's integers exactly, each
// float step one fused multiply-add. So it does not depend on how many columns there are, on its neighbours, on threads
// or on the instruction set.
#pragma once

#include "formats.h"

namespace kernels {

// A block of 32 activations of a column, rounded to 8 bits.
struct Activations {
    int8_t q[BLOCK];
    float d;         // x = d * q
    float sum;       // d times the sum of q, for formats with a minimum
    int32_t start[2];  // what the format's offset takes off: of both halves, or of each
};

// Where column c's block b lies: `x[b * stride + (c, or index[c])]`.
struct Columns {
    const Activations * x;
    int64_t stride;
    const int32_t * index;  // null: columns in order
};

// Rounds a block. What is not finite makes the scale NaN, so that it reaches the logits and is noticed there.
static inline void quantize_block(const float * x, int offset, bool halves, Activations & a) {
    int32_t bits[BLOCK], most_bits = 0;
    std::memcpy(bits, x, sizeof bits);
    for (int i = 0; i < BLOCK; i++) {
        const int32_t magnitude = bits[i] & 0x7FFFFFFF;  // in the order of the absolute values, NaN last
        most_bits = most_bits > magnitude ? most_bits : magnitude;
    }
    float most;
    std::memcpy(&most, &most_bits, 4);
    const bool finite = most_bits < 0x7F800000;
    a.d = finite ? most / 127.0f : NAN;
    const float inverse = finite && a.d > 0 ? 127.0f / most : 0.0f;
    int32_t sums[2] = {0, 0};
#if defined(__AVX2__)
    const __m256i ones8 = _mm256_set1_epi8(1), ones16 = _mm256_set1_epi16(1);
    __m256i part[4];
    for (int i = 0; i < 4; i++)
        part[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), _mm256_set1_ps(inverse)));
    const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(part[0], part[1]), _mm256_packs_epi32(part[2], part[3]));
    const __m256i q = finite ? _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
                             : _mm256_setzero_si256();
    _mm256_storeu_si256((__m256i *)a.q, q);
    int32_t eights[8];
    _mm256_storeu_si256((__m256i *)eights, _mm256_madd_epi16(_mm256_maddubs_epi16(ones8, q), ones16));
    for (int i = 0; i < 8; i++) sums[i / 4] += eights[i];
#else
    for (int i = 0; i < BLOCK; i++) {
        const int32_t q = finite ? (int32_t)std::nearbyint(x[i] * inverse) : 0;
        a.q[i] = (int8_t)q;
        sums[i / 16] += q;
    }
#endif
    a.sum = a.d * (float)(sums[0] + sums[1]);
    a.start[0] = -offset * (halves ? sums[0] : sums[0] + sums[1]);
    a.start[1] = -offset * sums[1];
}

template <class F> static inline Ints products(const Block & b, const Activations & a) {
    if constexpr (F::HALVES)
        return dot<F::BITS, 4>(b.w, a.q, a.start[0]) * b.sc[0] + dot<F::BITS, 4>(b.w + 4, a.q + 16, a.start[1]) * b.sc[1];
    else if constexpr (F::BITS == 8)
        return dot_signed(b.w, a.q, F::OFFSET == 0 ? 0 : a.start[0]);
    else
        return dot<F::BITS, 8>(b.w, a.q, F::OFFSET == 0 ? 0 : a.start[0]);
}

template <class F> static inline Floats add_block(const Block & b, const Activations & a, Floats sum) {
    sum = fused(b.d * a.d, to_floats(products<F>(b, a)), sum);
    if constexpr (F::HAS_MIN) sum = fused(b.m, broadcast(a.sum), sum);
    return sum;
}

// Columns in order, and columns by their index: where the first of some lies, and the others from there.
struct InOrder {
    const Activations * first;
    InOrder(Columns x, int64_t c) : first(x.x + c) {}
    const Activations & at(int64_t offset, int c) const { return first[offset + c]; }
};
template <int N> struct ByIndex {
    const Activations * column[N];
    ByIndex(Columns x, int64_t first) {
        for (int c = 0; c < N; c++) column[c] = x.x + x.index[first + c];
    }
    const Activations & at(int64_t offset, int c) const { return column[c][offset]; }
};

// Few columns: their sums stay in registers while the tile is read once.
template <class F, int N, class Place>
static void tile_few(const uint8_t * tile, int64_t n_blocks, Place place, int64_t stride, Floats * out) {
    Floats sum[N];
    for (int c = 0; c < N; c++) sum[c] = Floats{};
    for (int64_t i = 0; i < n_blocks; i++) {
        Block b;
        F::read(tile, i, b);
        for (int c = 0; c < N; c++) sum[c] = add_block<F>(b, place.at(i * stride, c), sum[c]);
    }
    for (int c = 0; c < N; c++) out[c] = sum[c];
}

// Many columns: a block of weights is unpacked once for all of them.
template <class F>
static void tile_many(const uint8_t * tile, int64_t n_blocks, Columns x, int64_t first, int64_t n, Floats * out) {
    for (int64_t c = 0; c < n; c++) out[c] = Floats{};
    for (int64_t i = 0; i < n_blocks; i++) {
        Block b;
        F::read(tile, i, b);
        const Activations * at = x.x + i * x.stride;
        if (x.index)
            for (int64_t c = 0; c < n; c++) out[c] = add_block<F>(b, at[x.index[first + c]], out[c]);
        else
            for (int64_t c = 0; c < n; c++) out[c] = add_block<F>(b, at[first + c], out[c]);
    }
}

constexpr int64_t MOST_COLUMNS = 128;  // of a call: their sums stay in the first cache

template <class F, int N>
static void tile_some(const uint8_t * tile, int64_t n_blocks, Columns x, int64_t first, Floats * out) {
    if (x.index) tile_few<F, N>(tile, n_blocks, ByIndex<N>(x, first), x.stride, out);
    else tile_few<F, N>(tile, n_blocks, InOrder(x, first), x.stride, out);
}

template <class F>
static void tile_product(const uint8_t * tile, int64_t n_blocks, Columns x, int64_t first, int64_t n, Floats * out) {
    switch (n) {
        case 1: return tile_some<F, 1>(tile, n_blocks, x, first, out);
        case 2: return tile_some<F, 2>(tile, n_blocks, x, first, out);
        case 3: return tile_some<F, 3>(tile, n_blocks, x, first, out);
        case 4: return tile_some<F, 4>(tile, n_blocks, x, first, out);
        default: return tile_many<F>(tile, n_blocks, x, first, n, out);
    }
}

}  // namespace kernels
