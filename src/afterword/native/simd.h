// The few vector operations that the kernels are made of, for AVX-512 with VNNI, AVX2, NEON and plain C++.
//
// A vector has LANES lanes, and each lane belongs to one row of a matrix of weights. All paths give the same bits:
// integers are exact, and every float operation is a lane's own fused multiply-add in a fixed order.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace kernels {

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VNNI__) && !defined(AFTERWORD_NO_AVX512) && !defined(AFTERWORD_PLAIN)
#define AFTERWORD_AVX512 1
constexpr int LANES = 16;
constexpr const char * PATH = "avx512-vnni";
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__) && !defined(AFTERWORD_PLAIN)
#define AFTERWORD_AVX2 1
constexpr int LANES = 8;
constexpr const char * PATH = "avx2";
#elif defined(__ARM_NEON) && !defined(AFTERWORD_PLAIN)
#define AFTERWORD_NEON 1
constexpr int LANES = 8;
constexpr const char * PATH = "neon";
#else
constexpr int LANES = 8;
constexpr const char * PATH = "plain";
#endif

typedef int32_t Ints __attribute__((vector_size(4 * LANES)));
typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef uint8_t Bytes __attribute__((vector_size(4 * LANES)));  // four weights of each lane
typedef uint16_t Shorts __attribute__((vector_size(4 * LANES)));

template <class V> static inline V load(const void * p) {
    V v;
    std::memcpy(&v, p, sizeof v);
    return v;
}
template <class V> static inline void store(void * p, V v) { std::memcpy(p, &v, sizeof v); }

static inline Floats broadcast(float x) { return Floats{} + x; }
static inline Floats to_floats(Ints v) { return __builtin_convertvector(v, Floats); }
// Shifts bytes within 16-bit elements; the mask drops what crosses over.
template <int N> static inline Bytes shift_right(Bytes v, uint8_t mask) { return (Bytes)((Shorts)v >> N) & mask; }
template <int N> static inline Bytes shift_left(Bytes v, uint8_t mask) { return (Bytes)((Shorts)v << N) & mask; }

// ---- half precision ----------------------------------------------------------------------------------------------

static inline float half_to_float(uint16_t h) {
#if defined(__F16C__)
    return _cvtsh_ss(h);
#elif defined(__ARM_NEON)
    __fp16 x;
    std::memcpy(&x, &h, 2);
    return x;
#else
    // Scale the fields of a half into those of a float; subnormals are made by a subtraction.
    const uint32_t w = (uint32_t)h << 16, sign = w & 0x80000000u, two_w = w + w;
    const uint32_t normal_bits = (two_w >> 4) + (0xE0u << 23);
    float normal, scale, small;
    const uint32_t scale_bits = 0x7800000u, small_bits = (two_w >> 17) | (126u << 23);
    std::memcpy(&normal, &normal_bits, 4);
    std::memcpy(&scale, &scale_bits, 4);
    std::memcpy(&small, &small_bits, 4);
    const float value = two_w < (1u << 27) ? small - 0.5f : normal * scale;
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    bits |= sign;
    float result;
    std::memcpy(&result, &bits, 4);
    return result;
#endif
}

// ---- per instruction set ------------------------------------------------------------------------------------------

#if defined(AFTERWORD_AVX512)

static inline Floats fused(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
static inline Floats load_halves(const void * p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
static inline Ints load_unsigned(const void * p) { return (Ints)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)); }
static inline Ints load_signed(const void * p) { return (Ints)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)); }
static inline Bytes broadcast4(const int8_t * p) {
    int32_t x;
    std::memcpy(&x, p, 4);
    return (Bytes)_mm512_set1_epi32(x);
}

// `start` plus the sums of weights times activations in each lane; BITS bounds the unsigned weights, N: groups of four.
template <int BITS, int N> static inline Ints dot(const Bytes * w, const int8_t * x, int32_t start) {
    __m512i even = _mm512_set1_epi32(start), odd = _mm512_setzero_si512();
    for (int g = 0; g < N; g += 2) {
        even = _mm512_dpbusd_epi32(even, (__m512i)w[g], (__m512i)broadcast4(x + 4 * g));
        odd = _mm512_dpbusd_epi32(odd, (__m512i)w[g + 1], (__m512i)broadcast4(x + 4 * g + 4));
    }
    return (Ints)_mm512_add_epi32(even, odd);
}

#elif defined(AFTERWORD_AVX2)

static inline Floats fused(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
static inline Floats load_halves(const void * p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
static inline Ints load_unsigned(const void * p) { return (Ints)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)); }
static inline Ints load_signed(const void * p) { return (Ints)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)); }
static inline __m256i broadcast4(const int8_t * p) {
    int32_t x;
    std::memcpy(&x, p, 4);
    return _mm256_set1_epi32(x);
}

// Products are added in 16 bits as long as they fit: 4-bit weights (15 * 127 * 2 a pair) eight times, 5-bit ones four
// times, 6-bit ones twice.
template <int BITS, int N> static inline Ints dot(const Bytes * w, const int8_t * x, int32_t start) {
    constexpr int FIT = BITS <= 4 ? 8 : BITS == 5 ? 4 : BITS == 6 ? 2 : 1;
    constexpr int RUN = FIT < N ? FIT : N;
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i sum = _mm256_set1_epi32(start);
    for (int g = 0; g < N; g += RUN) {
        __m256i pairs = _mm256_maddubs_epi16((__m256i)w[g], broadcast4(x + 4 * g));
        for (int i = 1; i < RUN; i++)
            pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16((__m256i)w[g + i], broadcast4(x + 4 * (g + i))));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
    }
    return (Ints)sum;
}

#elif defined(AFTERWORD_NEON)

static inline Floats fused(Floats a, Floats b, Floats c) {
    float32x4_t x[2], y[2], z[2];
    std::memcpy(x, &a, 32), std::memcpy(y, &b, 32), std::memcpy(z, &c, 32);
    for (int i = 0; i < 2; i++) z[i] = vfmaq_f32(z[i], x[i], y[i]);
    std::memcpy(&c, z, 32);
    return c;
}
static inline Floats load_halves(const void * p) {
    float16x4_t h[2];
    std::memcpy(h, p, 16);
    float32x4_t f[2] = {vcvt_f32_f16(h[0]), vcvt_f32_f16(h[1])};
    return load<Floats>(f);
}
typedef uint8_t NarrowUnsigned __attribute__((vector_size(LANES)));
typedef int8_t NarrowSigned __attribute__((vector_size(LANES)));
static inline Ints load_unsigned(const void * p) { return __builtin_convertvector(load<NarrowUnsigned>(p), Ints); }
static inline Ints load_signed(const void * p) { return __builtin_convertvector(load<NarrowSigned>(p), Ints); }

// Weights are below 128 here (8-bit ones are split, see formats.h), so signed products do.
template <int BITS, int N> static inline Ints dot(const Bytes * w, const int8_t * x, int32_t start) {
    int32x4_t sum[2] = {vdupq_n_s32(start), vdupq_n_s32(start)};
    for (int g = 0; g < N; g++) {
        int32_t four;
        std::memcpy(&four, x + 4 * g, 4);
        const int8x16_t activations = vreinterpretq_s8_s32(vdupq_n_s32(four));
        int8x16_t weights[2];
        std::memcpy(weights, &w[g], 32);
        for (int i = 0; i < 2; i++) {
#if defined(__ARM_FEATURE_DOTPROD)
            sum[i] = vdotq_s32(sum[i], weights[i], activations);
#else
            const int16x8_t low = vmull_s8(vget_low_s8(weights[i]), vget_low_s8(activations));
            const int16x8_t high = vmull_s8(vget_high_s8(weights[i]), vget_high_s8(activations));
            sum[i] = vaddq_s32(sum[i], vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
#endif
        }
    }
    return load<Ints>(sum);
}

#else

static inline Floats fused(Floats a, Floats b, Floats c) {
    for (int i = 0; i < LANES; i++) c[i] = std::fmaf(a[i], b[i], c[i]);
    return c;
}
static inline Floats load_halves(const void * p) {
    uint16_t h[LANES];
    std::memcpy(h, p, sizeof h);
    Floats f;
    for (int i = 0; i < LANES; i++) f[i] = half_to_float(h[i]);
    return f;
}
static inline Ints load_unsigned(const void * p) {
    Ints v;
    for (int i = 0; i < LANES; i++) v[i] = ((const uint8_t *)p)[i];
    return v;
}
static inline Ints load_signed(const void * p) {
    Ints v;
    for (int i = 0; i < LANES; i++) v[i] = ((const int8_t *)p)[i];
    return v;
}
template <int BITS, int N> static inline Ints dot(const Bytes * w, const int8_t * x, int32_t start) {
    Ints sum = Ints{} + start;
    for (int g = 0; g < N; g++)
        for (int lane = 0; lane < LANES; lane++)
            for (int i = 0; i < 4; i++) sum[lane] += (int32_t)w[g][4 * lane + i] * x[4 * g + i];
    return sum;
}

#endif

// Eight-bit weights come with their sign: as q + 128 where unsigned products exist, else as they are.
#if defined(AFTERWORD_AVX512)
constexpr int OFFSET_8 = 128;
static inline Ints dot_signed(const Bytes * w, const int8_t * x, int32_t start) { return dot<8, 8>(w, x, start); }
#elif defined(AFTERWORD_AVX2)
constexpr int OFFSET_8 = 0;
static inline Ints dot_signed(const Bytes * w, const int8_t * x, int32_t start) {
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i sum = _mm256_set1_epi32(start);
    for (int g = 0; g < 8; g++) {
        const __m256i weights = (__m256i)w[g];
        const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(broadcast4(x + 4 * g), weights));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
    }
    return (Ints)sum;
}
#elif defined(AFTERWORD_NEON)
constexpr int OFFSET_8 = 0;
static inline Ints dot_signed(const Bytes * w, const int8_t * x, int32_t start) { return dot<8, 8>(w, x, start); }
#else
constexpr int OFFSET_8 = 0;
static inline Ints dot_signed(const Bytes * w, const int8_t * x, int32_t start) {
    Ints sum = Ints{} + start;
    for (int g = 0; g < 8; g++)
        for (int lane = 0; lane < LANES; lane++)
            for (int i = 0; i < 4; i++) sum[lane] += (int32_t)(int8_t)w[g][4 * lane + i] * x[4 * g + i];
    return sum;
}
#endif

}  // namespace kernels
