// For tests, and for the check that a new build must pass: products without a model.

#include <vector>

#include "attention.h"
#include "simd.h"
#include "weights.h"

using namespace ggml_abi;
using namespace kernels;

namespace {

Tensor tensor(int32_t type, std::vector<int64_t> ne, void * data) {
    Tensor t{};
    t.type = type;
    t.data = data;
    for (int i = 0; i < 4; i++) t.ne[i] = i < (int)ne.size() ? ne[i] : 1;
    t.nb[0] = ggml_row_size(type, t.ne[0]) / t.ne[0];
    t.nb[1] = ggml_row_size(type, t.ne[0]);
    for (int i = 2; i < 4; i++) t.nb[i] = t.nb[i - 1] * t.ne[i - 1];
    if (type == F16 || type == BF16) t.nb[0] = 2;
    return t;
}

// Bytes that look random and are the same everywhere.
struct Bits {
    uint32_t state;
    uint32_t next() { return (state = state * 1664525u + 1013904223u) >> 8; }
    float value() { return (float)((int32_t)(next() & 0xFFFF) - 32768) / 16384.0f; }
    uint16_t half() { return (uint16_t)(0x2000u | (next() & 0x8FFFu)); }
    uint16_t brain() { return (uint16_t)(0x3E00u | (next() & 0x81FFu)); }
};

// Where ggml's blocks have their halves.
struct Layout {
    int32_t type;
    int bytes, columns;
    std::vector<int> halves;
};

std::vector<uint8_t> random_rows(const Layout & layout, int64_t n, int64_t n_rows, Bits & bits) {
    const int64_t n_blocks = n / layout.columns * n_rows;
    std::vector<uint8_t> rows(n_blocks * layout.bytes);
    for (uint8_t & byte : rows) byte = (uint8_t)bits.next();
    for (int64_t i = 0; i < n_blocks; i++)
        for (int at : layout.halves) {
            const uint16_t half = layout.type == BF16 ? bits.brain() : bits.half();
            std::memcpy(&rows[i * layout.bytes + at], &half, 2);
        }
    return rows;
}

// The operands of an attention without a model; tests/engine/llama/test_attention.py has the same fields.
struct Task {
    int64_t n_key, n_value, n_cells, n_queries, n_heads, n_key_heads, n_slots;
    const float * queries;   // (n_slots, n_heads, n_queries, n_key)
    const void * keys;       // (n_slots, n_key_heads, n_cells, n_key) of a ggml type
    const void * values;     // (n_slots, n_key_heads, n_cells, n_value) of that type
    const uint16_t * mask;   // (n_slots, n_queries, n_cells) halves, or null
    const float * sinks;     // (n_heads), or null
    float * out;             // (n_slots, n_queries, n_heads, n_value)
    int32_t type;
    float scale, max_bias, cap;
};

uint64_t add_to(uint64_t digest, const std::vector<float> & values) {
    for (float value : values) {
        uint32_t bits;
        std::memcpy(&bits, &value, 4);
        digest = (digest ^ bits) * 0x100000001B3ull;
    }
    return digest;
}

}  // namespace

extern "C" bool afterword_kernels_attend(const Task * task);

namespace {

// Two slots with some cells masked, heads that share keys, a cap and sinks.
std::vector<float> attended(Bits & bits) {
    const int64_t n_key = 80, n_value = 48, n_cells = 150, n_queries = 5, n_heads = 6, n_key_heads = 2, n_slots = 2;
    const auto floats = [&](int64_t n) {
        std::vector<float> values(n);
        for (float & value : values) value = bits.value();
        return values;
    };
    const auto halves = [&](int64_t n) {
        std::vector<uint16_t> values(n);
        for (uint16_t & value : values) value = (uint16_t)(bits.half() | 0x1800u);
        return values;
    };
    const auto queries = floats(n_slots * n_heads * n_queries * n_key), sinks = floats(n_heads);
    const auto keys = halves(n_slots * n_key_heads * n_cells * n_key), values = halves(n_slots * n_key_heads * n_cells * n_value);
    std::vector<uint16_t> mask(n_slots * n_queries * n_cells, 0);
    for (int64_t i = 0; i < n_slots * n_queries; i++)
        for (int64_t c = 60 + 17 * (i % n_queries); c < n_cells; c++) mask[i * n_cells + c] = 0xFC00;
    std::vector<float> out(n_slots * n_queries * n_heads * n_value);
    const Task task{n_key, n_value, n_cells, n_queries, n_heads, n_key_heads, n_slots, queries.data(), keys.data(),
                    values.data(), mask.data(), sinks.data(), out.data(), F16, 0.11f, 8.0f, 5.0f};
    afterword_kernels_attend(&task);
    return out;
}

}  // namespace

extern "C" {

// out (n_columns, n_rows) = x (n_columns, n) times rows (n_rows, n) of a ggml type; in tiles where the type has any and
// `tiles` is not 0, else row by row. Returns false if this cannot be done.
bool afterword_kernels_multiply(int32_t type, int64_t n, int64_t n_rows, const void * rows, int64_t n_columns, const float * x, float * out,
                                int32_t tiles) {
    Tensor a = tensor(type, {n, n_rows}, const_cast<void *>(rows)), b = tensor(F32, {n, n_columns}, const_cast<float *>(x));
    Tensor op = tensor(F32, {n_rows, n_columns}, out);
    op.src[0] = &a, op.src[1] = &b;
    const Kind * kind = tiles ? kind_of(&a) : nullptr;
    if (kind == nullptr && (tiles || !can_multiply_rows(&op))) return false;
    std::vector<uint8_t> packed, work((kind ? mul_mat_work(kind, &op) : mul_mat_rows_work(&op)) + LINE);
    const ComputeParams params{0, 1, work.size(), (void *)lines((size_t)work.data()), nullptr, false};
    if (kind == nullptr) {
        mul_mat_rows(&params, &op);
        return true;
    }
    packed.resize(bytes_of(kind, &a));
    a.data = packed.data();
    pack(kind, &a, rows);
    mul_mat(kind, &params, &op);
    return true;
}

// softmax(scale * K q + mask) V. Returns false if the type cannot be turned into floats.
bool afterword_kernels_attend(const Task * task) {
    const Task & t = *task;
    Tensor q = tensor(F32, {t.n_key, t.n_queries, t.n_heads, t.n_slots}, const_cast<float *>(t.queries));
    Tensor k = tensor(t.type, {t.n_key, t.n_cells, t.n_key_heads, t.n_slots}, const_cast<void *>(t.keys));
    Tensor v = tensor(t.type, {t.n_value, t.n_cells, t.n_key_heads, t.n_slots}, const_cast<void *>(t.values));
    Tensor mask = tensor(F16, {t.n_cells, t.n_queries, 1, t.n_slots}, const_cast<uint16_t *>(t.mask));
    Tensor sinks = tensor(F32, {t.n_heads}, const_cast<float *>(t.sinks));
    Tensor op = tensor(F32, {t.n_value, t.n_heads, t.n_queries, t.n_slots}, t.out);
    op.src[0] = &q, op.src[1] = &k, op.src[2] = &v;
    op.src[3] = t.mask ? &mask : nullptr, op.src[4] = t.sinks ? &sinks : nullptr;
    const float numbers[] = {t.scale, t.max_bias, t.cap};
    std::memcpy(op.op_params, numbers, sizeof numbers);
    if (!can_attend(&op)) return false;
    std::vector<uint8_t> work(attention_work(&op, 1) + LINE);
    const ComputeParams params{0, 1, work.size(), (void *)lines((size_t)work.data()), nullptr, false};
    attention(&params, &op);
    return true;
}

// A number made of the bits of many products and of attention: the same for every build that is right, whatever its instruction set.
uint64_t afterword_kernels_digest() {
    const std::vector<Layout> layouts = {
        {Q4_0, 18, 32, {0}}, {Q4_1, 20, 32, {0, 2}}, {Q5_0, 22, 32, {0}}, {Q5_1, 24, 32, {0, 2}}, {Q8_0, 34, 32, {0}},
        {Q4_K, 144, 256, {0, 2}}, {Q5_K, 176, 256, {0, 2}}, {Q6_K, 210, 256, {208}}, {F16, 2, 1, {0}}, {BF16, 2, 1, {0}},
    };
    const int64_t n = 512, n_rows = 37;  // a full tile of any width, and part of one
    Bits bits{1};
    uint64_t digest = 0xCBF29CE484222325ull;
    for (const Layout & layout : layouts) {
        const std::vector<uint8_t> rows = random_rows(layout, n, n_rows, bits);
        for (int64_t n_columns : {1, 2, 3, 4, 9, 131}) {
            std::vector<float> x(n * n_columns), out(n_rows * n_columns);
            for (float & value : x) value = bits.value();
            afterword_kernels_multiply(layout.type, n, n_rows, rows.data(), n_columns, x.data(), out.data(), 1);
            digest = add_to(digest, out);
            if (layout.columns != 1) continue;
            afterword_kernels_multiply(layout.type, n - 3, n_rows, rows.data(), n_columns, x.data(), out.data(), 0);
            digest = add_to(digest, out);
        }
    }
    return add_to(digest, attended(bits));
}

}
