// Products with weights that are floats: tiles of LANES rows (weights in our buffers), and rows as ggml lays them out
// (keys, values, adapters, whatever else is multiplied).
//
// As in quantized.h every element is reduced by itself in one fixed order.
#pragma once

#include "simd.h"

namespace kernels {

static inline float brain_to_float(uint16_t h) {
    const uint32_t bits = (uint32_t)h << 16;
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
}

constexpr int STRIDE = 8;  // elements of a row that are taken at once, whatever LANES is
typedef float Eight __attribute__((vector_size(4 * STRIDE)));

struct Half {
    using Storage = uint16_t;
    static inline Eight eight(const Storage * p) {
#if defined(AFTERWORD_AVX512)
        return (Eight)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
#else
        return (Eight)load_halves(p);
#endif
    }
    static inline Floats lanes(const Storage * p) { return load_halves(p); }
    static inline float one(Storage x) { return half_to_float(x); }
};
struct Brain {
    using Storage = uint16_t;
    static inline Eight eight(const Storage * p) {
#if defined(__AVX2__)
        return (Eight)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16);
#else
        return (Eight)lanes(p);
#endif
    }
    static inline Floats lanes(const Storage * p) {
#if defined(AFTERWORD_AVX2)
        return (Floats)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16);
#elif defined(AFTERWORD_AVX512)
        return (Floats)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16);
#else
        Floats f;
        for (int i = 0; i < LANES; i++) f[i] = brain_to_float(p[i]);
        return f;
#endif
    }
    static inline float one(Storage x) { return brain_to_float(x); }
};
struct Single {
    using Storage = float;
    static inline Eight eight(const Storage * p) { return load<Eight>(p); }
    static inline Floats lanes(const Storage * p) { return load<Floats>(p); }
    static inline float one(Storage x) { return x; }
};

// ---- tiles: element (row, column) of a tile lies at column * LANES + row --------------------------------------------

template <class E> void pack_dense(void * tile, int lane, const void * row, int64_t n) {
    auto * to = (typename E::Storage *)tile;
    auto * from = (const typename E::Storage *)row;
    for (int64_t k = 0; k < n; k++) to[k * LANES + lane] = from[k];
}

// N columns of T tiles that lie `tile_stride` elements apart. T only hides the latency of the additions.
template <class E, int N, int T>
static inline void dense_tiles(const typename E::Storage * tile, size_t tile_stride, int64_t n, const float * const * x,
                               Floats * out, size_t out_stride) {
    Floats sum[T][N];
    for (int t = 0; t < T; t++)
        for (int c = 0; c < N; c++) sum[t][c] = Floats{};
    for (int64_t k = 0; k < n; k++) {
        Floats w[T];
        for (int t = 0; t < T; t++) w[t] = E::lanes(tile + t * tile_stride + k * LANES);
        for (int c = 0; c < N; c++) {
            const Floats value = broadcast(x[c][k]);
            for (int t = 0; t < T; t++) sum[t][c] = fused(w[t], value, sum[t][c]);
        }
    }
    for (int t = 0; t < T; t++)
        for (int c = 0; c < N; c++) out[t * out_stride + c] = sum[t][c];
}

// ---- rows as they are ---------------------------------------------------------------------------------------------
//
// Eight partial sums along the row, added as ((0+1)+(2+3)) + ((4+5)+(6+7)), then what is left behind the last eight.

static inline Eight fused8(Eight a, Eight b, Eight c) {
#if defined(AFTERWORD_AVX512)
    return (Eight)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return (Eight)fused((Floats)a, (Floats)b, (Floats)c);
#endif
}

static inline float sum8(Eight v) { return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7])); }

// The sums of four vectors, in the order of sum8.
static inline void sum8_of_four(const Eight * v, float * out) {
#if defined(__AVX2__)
    const __m256 a = _mm256_hadd_ps((__m256)v[0], (__m256)v[1]), b = _mm256_hadd_ps((__m256)v[2], (__m256)v[3]);
    const __m256 c = _mm256_hadd_ps(a, b);
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(c), _mm256_extractf128_ps(c, 1)));
#else
    for (int i = 0; i < 4; i++) out[i] = sum8(v[i]);
#endif
}

// Four rows times N columns; out[c * 4 + row].
template <class E, int N>
static inline void dense_rows(const typename E::Storage * const * row, int64_t n, const float * const * x, float * out) {
    Eight sum[N][4];
    for (int c = 0; c < N; c++)
        for (int r = 0; r < 4; r++) sum[c][r] = Eight{};
    int64_t k = 0;
    for (; k + STRIDE <= n; k += STRIDE) {
        Eight value[N];
        for (int c = 0; c < N; c++) value[c] = load<Eight>(x[c] + k);
        for (int r = 0; r < 4; r++) {
            const Eight w = E::eight(row[r] + k);
            for (int c = 0; c < N; c++) sum[c][r] = fused8(w, value[c], sum[c][r]);
        }
    }
    for (int c = 0; c < N; c++) sum8_of_four(sum[c], out + 4 * c);
    for (; k < n; k++)
        for (int c = 0; c < N; c++)
            for (int r = 0; r < 4; r++) out[4 * c + r] = std::fmaf(E::one(row[r][k]), x[c][k], out[4 * c + r]);
}

}  // namespace kernels
