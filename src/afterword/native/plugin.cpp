// Puts the kernels in front of ggml's own: an "extra buffer type" of the CPU backend, which is asked before every
// operation, and whose buffers hold weights in tiles.

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "attention.h"
#include "simd.h"
#include "weights.h"

using namespace ggml_abi;
using namespace kernels;

namespace {

constexpr size_t ALIGNMENT = 64;

int MUL_MAT = -1, MUL_MAT_ID = -1, FLASH_ATTN_EXT = -1;

BufferType * buffer_type();

bool is_ours(const Tensor * t) { return t->buffer != nullptr && t->buffer->buft == buffer_type(); }

// Whether a tensor lies as ggml lays it out: not in the buffers of other kernels, which arrange weights their own way.
bool is_plain(const Tensor * t) {
    return t->buffer == nullptr || (t->buffer->buft->iface.is_host != nullptr && t->buffer->buft->iface.is_host(t->buffer->buft));
}

bool is_product(const Tensor * op) { return op->op == MUL_MAT || op->op == MUL_MAT_ID; }

// Whether a type without tiles is kept in our buffers all the same, as ggml lays it out: else ggml would arrange it for
// kernels of its own, whose rows depend on how many there are.
bool keeps_rows(const Tensor * weights) {
    const TypeTraitsCpu * traits = ggml_get_type_traits_cpu(weights->type);
    return ggml_get_type_traits(weights->type)->is_quantized && kind_of(weights) == nullptr && traits->vec_dot != nullptr;
}

// Whether an operation can read these weights from our buffers.
bool reads_ours(const Tensor * op) {
    const Tensor *weights = op->src[0], *x = op->src[1];
    if (!is_product(op) || x->type != F32) return false;
    if (keeps_rows(weights)) return can_multiply_rows(op);
    if (kind_of(weights) == nullptr) return false;
    const int n_more = op->op == MUL_MAT ? 2 : 3;
    for (int i = n_more; i < 4; i++)
        if (weights->ne[i] != 1) return false;
    return x->buffer == nullptr || !is_ours(x);
}

// The kind of weights that lie in our tiles; null for others, which are multiplied row by row.
const Kind * kind_in_tiles(const Tensor * weights) { return is_ours(weights) ? kind_of(weights) : nullptr; }

struct Traits final : TensorTraits {
    bool work_size(int n_threads, const Tensor * op, size_t & size) override {
        if (op->op == FLASH_ATTN_EXT) {
            if (!can_attend(op)) return false;
            size = attention_work(op, n_threads);
        } else if (const Kind * kind = kind_in_tiles(op->src[0])) {
            size = op->op == MUL_MAT ? mul_mat_work(kind, op) : mul_mat_id_work(kind, op);
        } else if (can_multiply_rows(op)) {
            size = op->op == MUL_MAT ? mul_mat_rows_work(op) : mul_mat_id_rows_work(op);
        } else {
            return false;
        }
        return true;
    }

    bool compute_forward(ComputeParams * params, Tensor * op) override {
        if (op->op == FLASH_ATTN_EXT) {
            if (!can_attend(op)) return false;
            attention(params, op);
        } else if (const Kind * kind = kind_in_tiles(op->src[0])) {
            op->op == MUL_MAT ? mul_mat(kind, params, op) : mul_mat_id(kind, params, op);
        } else if (can_multiply_rows(op)) {
            op->op == MUL_MAT ? mul_mat_rows(params, op) : mul_mat_id_rows(params, op);
        } else {
            return false;
        }
        return true;
    }
};

struct Extra final : ExtraBufferType {
    Traits traits;
    bool supports_op(void *, const Tensor * op) override { return is_ours(op->src[0]) && reads_ours(op); }
    TensorTraits * get_tensor_traits(const Tensor * op) override {
        if (op->op == FLASH_ATTN_EXT) return &traits;
        return is_product(op) && (is_ours(op->src[0]) || is_plain(op->src[0])) ? &traits : nullptr;
    }
};

const char * name(BufferType *) { return "CPU_TILES"; }
size_t alignment(BufferType *) { return ALIGNMENT; }
size_t alloc_size(BufferType *, const Tensor * t) {
    const Kind * kind = kind_of(t);
    return kind == nullptr ? ggml_nbytes(t) : std::max(ggml_nbytes(t), bytes_of(kind, t));
}

int init_tensor(Buffer *, Tensor *) { return 0; }

void set_tensor(Buffer *, Tensor * t, const void * data, size_t offset, size_t size) {
    if (offset != 0 || size != ggml_nbytes(t) || t->view_src != nullptr) {
        std::fprintf(stderr, "weights are written whole: %s\n", t->name);
        std::abort();
    }
    if (kind_of(t) == nullptr) std::memcpy(t->data, data, size);
    else pack(kind_of(t), t, data);
}

Buffer * alloc_buffer(BufferType * type, size_t size) {
    Buffer * buffer = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), size);
    if (buffer == nullptr) return nullptr;
    buffer->buft = type;
    buffer->iface.init_tensor = init_tensor;
    buffer->iface.set_tensor = set_tensor;
    buffer->iface.get_tensor = nullptr;
    buffer->iface.cpy_tensor = nullptr;
    return buffer;
}

BufferType * buffer_type() {
    static BufferType type = {
        {name, alloc_buffer, alignment, nullptr, alloc_size, nullptr},
        ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0),
        static_cast<ExtraBufferType *>(new Extra),
    };
    return &type;
}

}  // namespace

extern "C" {

// Puts the kernels in front, for every model that is loaded after. Call it once, before the first model is loaded: ggml
// lists the kinds of buffers only once.
// Returns false, and changes nothing, where ggml is not the one that this library was written for.
bool afterword_kernels_install() {
    for (int op = 0; op < 128 && (MUL_MAT < 0 || MUL_MAT_ID < 0 || FLASH_ATTN_EXT < 0); op++) {
        const char * name = ggml_op_name(op);
        if (std::strcmp(name, "MUL_MAT") == 0) MUL_MAT = op;
        if (std::strcmp(name, "MUL_MAT_ID") == 0) MUL_MAT_ID = op;
        if (std::strcmp(name, "FLASH_ATTN_EXT") == 0) FLASH_ATTN_EXT = op;
        if (std::strcmp(name, "GLU") == 0) break;  // the last
    }
    if (MUL_MAT < 0 || MUL_MAT_ID < 0 || FLASH_ATTN_EXT < 0) return false;
    auto & types = ggml_backend_cpu_get_extra_buffer_types();
    types.insert(types.begin(), buffer_type());
    return true;
}

// The instruction set that the kernels were compiled for.
const char * afterword_kernels_path() { return PATH; }

}
