// How quantised weights are kept: tiles of LANES rows, block by block, so that one vector holds the same four columns of
// every row of the tile.
//
//   block    32 columns. Planes of bits: four vectors of nibbles (low half: columns 4g..4g+3 for g = 0..3, high half:
//            g = 4..7), one vector with a fifth bit (bit g), or two with a fifth and sixth (bits 2g, 2g+1), or eight
//            vectors of whole bytes.
//   scales   formats of ggml with a scale for 32 columns: behind the planes of each block, LANES halves for d, then for
//            m where there is one. K formats: before each eight blocks d and dmin, then a byte a block and lane for the
//            scales and for the mins.
//
// The numbers are the file's: w = scale * q - min, with q unsigned and `offset` taken off where the format is signed.
#pragma once

#include "simd.h"

namespace kernels {

constexpr int BLOCK = 32;
constexpr int SUPER = 8;  // blocks that share a K format's scales

struct Block {
    Bytes w[8];      // 4 columns each, unsigned (signed for bits == 8 where OFFSET_8 is 0)
    Floats d;        // scale
    Floats m;        // what is taken off, times the sum of the activations; only if HAS_MIN
    Ints sc[2];      // integer scales of the two halves; only if HALVES
};

// Weights come from memory in the order of the tiles, and the processor's own guesses do not reach far enough while many
// columns are multiplied with a block.
constexpr int AHEAD = 8192;  // bytes; with 2048 sixteen columns take a tenth longer, without any twice as long
template <int BYTES> static inline void fetch_ahead(const uint8_t * p) {
    for (int i = 0; i < BYTES; i += 64) __builtin_prefetch(p + AHEAD + i);
}

static inline void unpack_nibbles(const uint8_t * p, Bytes * w) {
    for (int i = 0; i < 4; i++) {
        const Bytes v = load<Bytes>(p + i * 4 * LANES);
        w[i] = v & (uint8_t)0x0F;
        w[i + 4] = shift_right<4>(v, 0x0F);
    }
}

static inline void add_fifth_bit(const uint8_t * p, Bytes * w) {
    const Bytes v = load<Bytes>(p);
    w[0] |= shift_left<4>(v, 0x10);
    w[1] |= shift_left<3>(v, 0x10);
    w[2] |= shift_left<2>(v, 0x10);
    w[3] |= shift_left<1>(v, 0x10);
    w[4] |= v & (uint8_t)0x10;
    w[5] |= shift_right<1>(v, 0x10);
    w[6] |= shift_right<2>(v, 0x10);
    w[7] |= shift_right<3>(v, 0x10);
}

static inline void add_two_bits(const uint8_t * p, Bytes * w) {
    for (int i = 0; i < 2; i++) {
        const Bytes v = load<Bytes>(p + i * 4 * LANES);
        w[4 * i + 0] |= shift_left<4>(v, 0x30);
        w[4 * i + 1] |= shift_left<2>(v, 0x30);
        w[4 * i + 2] |= v & (uint8_t)0x30;
        w[4 * i + 3] |= shift_right<2>(v, 0x30);
    }
}

// Bytes of the planes of a block.
constexpr int plane_bytes(int bits) { return 4 * LANES * (bits == 4 ? 4 : bits == 5 ? 5 : bits == 6 ? 6 : 8); }

template <int BITS_> struct Planes {
    static constexpr int BITS = BITS_;
    static constexpr int PLANES = plane_bytes(BITS);

    static inline void unpack(const uint8_t * p, Bytes * w) {
        if constexpr (BITS == 8) {
            for (int g = 0; g < 8; g++) w[g] = load<Bytes>(p + g * 4 * LANES);
        } else {
            unpack_nibbles(p, w);
            if constexpr (BITS == 5) add_fifth_bit(p + 16 * LANES, w);
            if constexpr (BITS == 6) add_two_bits(p + 16 * LANES, w);
        }
    }

    // Puts the 32 columns `q` of one lane into zeroed planes.
    static void pack(uint8_t * p, int lane, const uint8_t * q) {
        for (int g = 0; g < 8; g++)
            for (int i = 0; i < 4; i++) {
                const uint8_t value = q[4 * g + i];
                const int at = 4 * lane + i;
                if (BITS == 8) {
                    p[g * 4 * LANES + at] = value;
                    continue;
                }
                p[(g % 4) * 4 * LANES + at] |= (uint8_t)((value & 15) << (g < 4 ? 0 : 4));
                if (BITS == 5) p[16 * LANES + at] |= (uint8_t)((value >> 4) << g);
                if (BITS == 6) p[(16 + 4 * (g / 4)) * LANES + at] |= (uint8_t)((value >> 4) << (2 * (g % 4)));
            }
    }
};

// A scale, and perhaps a minimum, for each block.
template <int BITS_, bool HAS_MIN_, int OFFSET_> struct Simple : Planes<BITS_> {
    using P = Planes<BITS_>;
    static constexpr bool HAS_MIN = HAS_MIN_, HALVES = false;
    static constexpr int OFFSET = OFFSET_;
    static constexpr int BLOCK_BYTES = P::PLANES + 2 * LANES * (HAS_MIN ? 2 : 1);
    static constexpr int COLUMNS = BLOCK;  // that a row's length is a multiple of

    static size_t tile_bytes(int64_t n_blocks) { return (size_t)n_blocks * BLOCK_BYTES; }

    static inline void read(const uint8_t * tile, int64_t block, Block & b) {
        const uint8_t * p = tile + block * BLOCK_BYTES;
        fetch_ahead<BLOCK_BYTES>(p);
        P::unpack(p, b.w);
        b.d = load_halves(p + P::PLANES);
        if constexpr (HAS_MIN) b.m = load_halves(p + P::PLANES + 2 * LANES);
    }
};

// K formats with a byte a block for scale and min: Q4_K, Q5_K.
template <int BITS_> struct SuperMin : Planes<BITS_> {
    using P = Planes<BITS_>;
    static constexpr bool HAS_MIN = true, HALVES = false;
    static constexpr int OFFSET = 0;
    static constexpr int HEAD = 4 * LANES + 2 * SUPER * LANES;
    static constexpr int SUPER_BYTES = HEAD + SUPER * P::PLANES;
    static constexpr int COLUMNS = SUPER * BLOCK;

    static size_t tile_bytes(int64_t n_blocks) { return (size_t)(n_blocks / SUPER) * SUPER_BYTES; }

    static inline void read(const uint8_t * tile, int64_t block, Block & b) {
        const uint8_t * head = tile + block / SUPER * SUPER_BYTES;
        const int i = (int)(block % SUPER);
        fetch_ahead<P::PLANES>(head + HEAD + i * P::PLANES);
        P::unpack(head + HEAD + i * P::PLANES, b.w);
        b.d = load_halves(head) * to_floats(load_unsigned(head + 4 * LANES + i * LANES));
        b.m = -(load_halves(head + 2 * LANES) * to_floats(load_unsigned(head + (4 + SUPER + i) * LANES)));
    }
};

// Q6_K: a signed byte for each half of a block.
struct SuperHalves : Planes<6> {
    using P = Planes<6>;
    static constexpr bool HAS_MIN = false, HALVES = true;
    static constexpr int OFFSET = 32;
    static constexpr int HEAD = 2 * LANES + 2 * SUPER * LANES;
    static constexpr int SUPER_BYTES = HEAD + SUPER * P::PLANES;
    static constexpr int COLUMNS = SUPER * BLOCK;

    static size_t tile_bytes(int64_t n_blocks) { return (size_t)(n_blocks / SUPER) * SUPER_BYTES; }

    static inline void read(const uint8_t * tile, int64_t block, Block & b) {
        const uint8_t * head = tile + block / SUPER * SUPER_BYTES;
        const int i = (int)(block % SUPER);
        fetch_ahead<P::PLANES>(head + HEAD + i * P::PLANES);
        P::unpack(head + HEAD + i * P::PLANES, b.w);
        b.d = load_halves(head);
        b.sc[0] = load_signed(head + (2 + 2 * i) * LANES);
        b.sc[1] = load_signed(head + (3 + 2 * i) * LANES);
    }
};

using FormatQ4_0 = Simple<4, false, 8>;
using FormatQ4_1 = Simple<4, true, 0>;
using FormatQ5_0 = Simple<5, false, 16>;
using FormatQ5_1 = Simple<5, true, 0>;
using FormatQ8_0 = Simple<8, false, OFFSET_8>;
using FormatQ4_K = SuperMin<4>;
using FormatQ5_K = SuperMin<5>;
using FormatQ6_K = SuperHalves;

}  // namespace kernels
