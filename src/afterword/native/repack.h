// Rows of ggml's formats into tiles (formats.h).
#pragma once

#include "formats.h"

namespace kernels {

// One row's super-block or block at a time: `q` gets its columns, the scales go to their places in the tile.

static inline void nibbles_of(const uint8_t * qs, uint8_t * q) {
    for (int j = 0; j < 16; j++) q[j] = qs[j] & 15, q[j + 16] = qs[j] >> 4;
}

static inline void fifth_bits_of(const uint8_t * qh, uint8_t * q) {
    uint32_t bits;
    std::memcpy(&bits, qh, 4);
    for (int j = 0; j < BLOCK; j++) q[j] |= (uint8_t)((bits >> j & 1) << 4);
}

// Where the parts of a block of a simple ggml format are.
struct SimpleSource {
    int bytes, m, qh, qs;  // size of a block; offsets of the minimum (or -1), the fifth bits (or -1), the quants
};

template <class F> void pack_simple(uint8_t * tile, int lane, const uint8_t * row, int64_t n_blocks, SimpleSource s) {
    for (int64_t block = 0; block < n_blocks; block++) {
        const uint8_t * from = row + block * s.bytes;
        uint8_t * to = tile + block * F::BLOCK_BYTES;
        uint8_t q[BLOCK];
        if (F::BITS == 8)
            for (int j = 0; j < BLOCK; j++) q[j] = (uint8_t)(from[s.qs + j] ^ (F::OFFSET == 128 ? 0x80 : 0));
        else
            nibbles_of(from + s.qs, q);
        if (s.qh >= 0) fifth_bits_of(from + s.qh, q);
        F::pack(to, lane, q);
        std::memcpy(to + F::PLANES + 2 * lane, from, 2);
        if (s.m >= 0) std::memcpy(to + F::PLANES + 2 * (LANES + lane), from + s.m, 2);
    }
}

// The 6-bit scale and min of block i, packed into 12 bytes by ggml.
static inline void scale_and_min(const uint8_t * packed, int i, uint8_t * scale, uint8_t * min) {
    if (i < 4) {
        *scale = packed[i] & 63, *min = packed[i + 4] & 63;
    } else {
        *scale = (uint8_t)((packed[i + 4] & 15) | (packed[i - 4] >> 6 << 4));
        *min = (uint8_t)((packed[i + 4] >> 4) | (packed[i] >> 6 << 4));
    }
}

// Q4_K: d, dmin, 12 bytes of scales, 128 of nibbles. Q5_K has 32 bytes of fifth bits before the nibbles.
template <class F> void pack_super_min(uint8_t * tile, int lane, const uint8_t * row, int64_t n_blocks) {
    constexpr int BYTES = F::BITS == 5 ? 176 : 144;
    for (int64_t s = 0; s < n_blocks / SUPER; s++) {
        const uint8_t * from = row + s * BYTES;
        const uint8_t * qh = from + 16;
        const uint8_t * qs = qh + (F::BITS == 5 ? 32 : 0);
        uint8_t * head = tile + s * F::SUPER_BYTES;
        std::memcpy(head + 2 * lane, from, 2);
        std::memcpy(head + 2 * (LANES + lane), from + 2, 2);
        for (int i = 0; i < SUPER; i++) {
            scale_and_min(from + 4, i, head + (4 + i) * LANES + lane, head + (4 + SUPER + i) * LANES + lane);
            uint8_t q[BLOCK];
            for (int j = 0; j < BLOCK; j++) {
                q[j] = (uint8_t)(qs[i / 2 * 32 + j] >> (i % 2 * 4) & 15);
                if (F::BITS == 5) q[j] |= (uint8_t)((qh[j] >> i & 1) << 4);
            }
            F::pack(head + F::HEAD + i * F::PLANES, lane, q);
        }
    }
}

// Q6_K: 128 bytes of nibbles, 64 of the two bits above, 16 scales, d.
static inline void pack_super_halves(uint8_t * tile, int lane, const uint8_t * row, int64_t n_blocks) {
    using F = FormatQ6_K;
    for (int64_t s = 0; s < n_blocks / SUPER; s++) {
        const uint8_t * from = row + s * 210;
        uint8_t * head = tile + s * F::SUPER_BYTES;
        std::memcpy(head + 2 * lane, from + 208, 2);
        for (int i = 0; i < SUPER; i++) {
            // Four blocks share 64 bytes of nibbles and 32 of the bits above.
            const uint8_t * low = from + i / 4 * 64 + i % 2 * 32;
            const uint8_t * high = from + 128 + i / 4 * 32;
            uint8_t q[BLOCK];
            for (int j = 0; j < BLOCK; j++)
                q[j] = (uint8_t)((low[j] >> (i % 4 / 2 * 4) & 15) | (high[j] >> (i % 4 * 2) & 3) << 4);
            F::pack(head + F::HEAD + i * F::PLANES, lane, q);
            head[(2 + 2 * i) * LANES + lane] = from[192 + 2 * i];
            head[(3 + 2 * i) * LANES + lane] = from[193 + 2 * i];
        }
    }
}

}  // namespace kernels
