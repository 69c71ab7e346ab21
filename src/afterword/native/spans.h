// The two products of attention, over a span of cells: scores of keys with queries, and sums of values.
//
// Keys and values are taken as halves where they lie, or as floats from a copy of the span: the same numbers.
#pragma once

#include "dense.h"

namespace kernels {

constexpr int SPAN = 64;    // cells that share a step of the running softmax
constexpr int SIXTEEN = 16; // partial sums of a score
constexpr int PARTS = SIXTEEN / LANES;

#if defined(AFTERWORD_AVX512)
constexpr int SCORE_QUERIES = 4, VALUE_QUERIES = 4;  // at once: what the registers hold
#else
constexpr int SCORE_QUERIES = 1, VALUE_QUERIES = 2;
#endif
constexpr int VALUE_VECTORS = 4;

struct Sixteen {
    Floats part[PARTS];
};

// The sum of sixteen lanes: i with i + 8, then as sum8.
static inline float sum16(const Sixteen & v) {
    float x[SIXTEEN];
    std::memcpy(x, &v, sizeof x);
    Eight eight;
    for (int i = 0; i < STRIDE; i++) eight[i] = x[i] + x[i + STRIDE];
    return sum8(eight);
}

// The sums of four, in the order of sum16.
static inline void sum16_of_four(const Sixteen * v, float * out) {
#if defined(AFTERWORD_AVX512)
    const auto halves = [](__m512 a, __m512 b) {
        return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
    };
    const __m512 a = halves((__m512)v[0].part[0], (__m512)v[1].part[0]), b = halves((__m512)v[2].part[0], (__m512)v[3].part[0]);
    const __m512 pairs = _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xDD));
    const __m512 fours = _mm512_add_ps(pairs, _mm512_permute_ps(pairs, 0xB1));
    const __m512 all = _mm512_add_ps(fours, _mm512_shuffle_f32x4(fours, fours, 0xB1));
    const __m512i places = _mm512_setr_epi32(0, 8, 2, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_permutexvar_ps(places, all)));
#elif defined(AFTERWORD_AVX2)
    Eight eight[4];
    for (int i = 0; i < 4; i++) eight[i] = (Eight)(v[i].part[0] + v[i].part[1]);
    sum8_of_four(eight, out);
#else
    for (int i = 0; i < 4; i++) out[i] = sum16(v[i]);
#endif
}

// Rows of keys or values: `first`, and the elements from one to the next.
template <class E> struct Rows {
    const typename E::Storage * first;
    size_t stride;
    const typename E::Storage * operator[](int64_t i) const { return first + i * stride; }
};

// score[q][cell] for four cells and N queries of `n` elements, a multiple of SIXTEEN.
template <class E, int N>
static inline void four_scores(Rows<E> keys, int64_t cell, int64_t n, const float * const * query, float * const * score) {
    Sixteen sum[N][4];
    for (int q = 0; q < N; q++)
        for (int c = 0; c < 4; c++) sum[q][c] = Sixteen{};
    for (int64_t d = 0; d < n; d += SIXTEEN)
        for (int p = 0; p < PARTS; p++) {
            Floats x[N];
            for (int q = 0; q < N; q++) x[q] = load<Floats>(query[q] + d + p * LANES);
            for (int c = 0; c < 4; c++) {
                const Floats k = E::lanes(keys[cell + c] + d + p * LANES);
                for (int q = 0; q < N; q++) sum[q][c].part[p] = fused(k, x[q], sum[q][c].part[p]);
            }
        }
    for (int q = 0; q < N; q++) sum16_of_four(sum[q], score[q] + cell);
}

// Cells first..last (multiples of four) of up to SCORE_QUERIES queries.
template <class E>
static void scores(Rows<E> keys, int64_t first, int64_t last, int64_t n, const float * const * query, float * const * score, int n_queries) {
    for (int64_t c = first; c < last; c += 4) {
        switch (n_queries) {
            case 1: four_scores<E, 1>(keys, c, n, query, score); break;
#if defined(AFTERWORD_AVX512)
            case 2: four_scores<E, 2>(keys, c, n, query, score); break;
            case 3: four_scores<E, 3>(keys, c, n, query, score); break;
            default: four_scores<E, 4>(keys, c, n, query, score); break;
#endif
        }
    }
}

// sum[q] += weight[q][cell] * values[cell], cells in ascending order, for V vectors of N queries.
template <class E, int N, int V>
static inline void add_some(Rows<E> values, int64_t first, int64_t last, int64_t d, const float * const * weight, float * const * sum) {
    Floats s[N][V];
    for (int q = 0; q < N; q++)
        for (int i = 0; i < V; i++) s[q][i] = load<Floats>(sum[q] + d + i * LANES);
    for (int64_t c = first; c < last; c++) {
        Floats v[V];
        for (int i = 0; i < V; i++) v[i] = E::lanes(values[c] + d + i * LANES);
        for (int q = 0; q < N; q++) {
            const Floats w = broadcast(weight[q][c]);
            for (int i = 0; i < V; i++) s[q][i] = fused(w, v[i], s[q][i]);
        }
    }
    for (int q = 0; q < N; q++)
        for (int i = 0; i < V; i++) store(sum[q] + d + i * LANES, s[q][i]);
}

template <class E, int N>
static void add_values(Rows<E> values, int64_t first, int64_t last, int64_t n, const float * const * weight, float * const * sum) {
    int64_t d = 0;
    for (; d + VALUE_VECTORS * LANES <= n; d += VALUE_VECTORS * LANES)
        add_some<E, N, VALUE_VECTORS>(values, first, last, d, weight, sum);
    for (; d < n; d += LANES) add_some<E, N, 1>(values, first, last, d, weight, sum);
}

// Up to VALUE_QUERIES queries.
template <class E>
static void weighted(Rows<E> values, int64_t first, int64_t last, int64_t n, const float * const * weight, float * const * sum, int n_queries) {
    switch (n_queries) {
        case 1: return add_values<E, 1>(values, first, last, n, weight, sum);
        case 2: return add_values<E, 2>(values, first, last, n, weight, sum);
#if defined(AFTERWORD_AVX512)
        case 3: return add_values<E, 3>(values, first, last, n, weight, sum);
        default: return add_values<E, 4>(values, first, last, n, weight, sum);
#endif
    }
}

}  // namespace kernels
