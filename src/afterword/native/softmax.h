// Exponentials of vectors, the same bits on every instruction set: each lane's own additions, multiplications and fused
// multiply-adds in a fixed order.
#pragma once

#include "simd.h"

namespace kernels {

static inline Floats choose(Ints mask, Floats a, Floats b) { return (Floats)(((Ints)a & mask) | ((Ints)b & ~mask)); }
static inline Floats greater(Floats a, Floats b) { return choose(a > b, a, b); }

// exp(x) for x <= 0, within two units in the last place; exactly 0 below -87, where floats lose digits. NaN stays NaN.
// exp(x) = 2^n * exp(r) with |r| <= ln(2)/2, and Taylor's series for exp(r), whose eighth term is below 2^-27.
static inline Floats exponential(Floats x) {
    const Ints tiny = x < broadcast(-87.0f);
    constexpr float ROUND = 12582912.0f;  // 1.5 * 2^23: what is added to it is rounded to a whole number
    const Floats shifted = fused(x, broadcast(1.44269504f), broadcast(ROUND));
    const Floats n = shifted - broadcast(ROUND);
    // ln(2) in two parts, the first with few digits, so that n times it is exact.
    const Floats r = fused(n, broadcast(-1.42860677e-6f), fused(n, broadcast(-0.693145752f), x));
    Floats e = broadcast(1.0f / 5040.0f);
    e = fused(e, r, broadcast(1.0f / 720.0f));
    e = fused(e, r, broadcast(1.0f / 120.0f));
    e = fused(e, r, broadcast(1.0f / 24.0f));
    e = fused(e, r, broadcast(1.0f / 6.0f));
    e = fused(e, r, broadcast(0.5f));
    e = fused(e, r, broadcast(1.0f));
    e = fused(e, r, broadcast(1.0f));
    // n stands in the low bits of `shifted`; its sum with the exponent's bias makes 2^n.
    const Ints power = ((Ints)shifted - (int32_t)(0x4B400000 - 127)) << 23;
    return choose(tiny, Floats{}, e * (Floats)power);
}

static inline float exponential(float x) { return exponential(broadcast(x))[0]; }

// tanh(x) = (1 - e) / (1 + e) with e = exp(-2|x|), and the sign of x.
static inline Floats hyperbolic_tangent(Floats x) {
    const Ints sign = (Ints)x & (int32_t)0x80000000;
    const Floats magnitude = (Floats)((Ints)x & 0x7FFFFFFF);
    const Floats e = exponential(magnitude * broadcast(-2.0f));
    const Floats t = (broadcast(1.0f) - e) / (broadcast(1.0f) + e);
    return (Floats)((Ints)t | sign);
}

}  // namespace kernels
