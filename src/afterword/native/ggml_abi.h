// What this library knows of ggml's insides: the structures that the CPU backend hands to an "extra buffer type", as
// llama-cpp-python 0.3.36 has them. engine/llama/kernels.py names that version; no other is hooked into.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ggml_abi {

enum Type : int32_t {
    F32 = 0, F16 = 1, Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8,
    Q4_K = 12, Q5_K = 13, Q6_K = 14, BF16 = 30,
};

struct BufferType;
struct Buffer;

struct Tensor {
    int32_t type;
    Buffer * buffer;
    int64_t ne[4];
    size_t nb[4];
    int32_t op;
    int32_t op_params[16];
    int32_t flags;
    Tensor * src[10];
    Tensor * view_src;
    size_t view_offs;
    void * data;
    char name[64];
    void * extra;
    char padding[8];
};

struct BufferTypeInterface {
    const char * (*get_name)(BufferType *);
    Buffer * (*alloc_buffer)(BufferType *, size_t);
    size_t (*get_alignment)(BufferType *);
    size_t (*get_max_size)(BufferType *);
    size_t (*get_alloc_size)(BufferType *, const Tensor *);
    bool (*is_host)(BufferType *);
};

struct BufferType {
    BufferTypeInterface iface;
    void * device;
    void * context;
};

struct BufferInterface {
    void (*free_buffer)(Buffer *);
    void * (*get_base)(Buffer *);
    int (*init_tensor)(Buffer *, Tensor *);
    void (*memset_tensor)(Buffer *, Tensor *, uint8_t, size_t, size_t);
    void (*set_tensor)(Buffer *, Tensor *, const void *, size_t, size_t);
    void (*get_tensor)(Buffer *, const Tensor *, void *, size_t, size_t);
    void (*set_tensor_2d)(Buffer *, Tensor *, const void *, size_t, size_t, size_t, size_t, size_t);
    void (*get_tensor_2d)(Buffer *, const Tensor *, void *, size_t, size_t, size_t, size_t, size_t);
    bool (*cpy_tensor)(Buffer *, const Tensor *, Tensor *);
    void (*clear)(Buffer *, uint8_t);
    void (*reset)(Buffer *);
};

struct Buffer {
    BufferInterface iface;
    BufferType * buft;
    void * context;
    size_t size;
    int32_t usage;
};

struct ComputeParams {
    int ith, nth;
    size_t wsize;
    void * wdata;
    void * threadpool;
    bool use_ref;
};

// The CPU backend calls these two classes through their virtual tables: destructor first, then in this order.
struct TensorTraits {
    virtual ~TensorTraits() = default;
    virtual bool work_size(int n_threads, const Tensor * op, size_t & size) = 0;
    virtual bool compute_forward(ComputeParams * params, Tensor * op) = 0;
};

struct ExtraBufferType {
    virtual ~ExtraBufferType() = default;
    virtual bool supports_op(void * device, const Tensor * op) = 0;
    virtual TensorTraits * get_tensor_traits(const Tensor * op) = 0;
};

typedef void (*FromFloat)(const float *, void *, int64_t);
typedef void (*VecDot)(int n, float * s, size_t bs, const void * x, size_t bx, const void * y, size_t by, int nrc);

struct TypeTraits {
    const char * type_name;
    int64_t block_size, block_size_interleave;
    size_t type_size;
    bool is_quantized;
    void (*to_float)(const void *, float *, int64_t);
    FromFloat from_float_reference;
};

struct TypeTraitsCpu {
    FromFloat from_float;
    VecDot vec_dot;
    int32_t vec_dot_type;
    int64_t nrows;
};

}  // namespace ggml_abi

// Exported by ggml's libraries under these names.
std::vector<ggml_abi::BufferType *> & ggml_backend_cpu_get_extra_buffer_types();

extern "C" {
void ggml_barrier(void * threadpool);
const ggml_abi::TypeTraits * ggml_get_type_traits(int32_t type);
const ggml_abi::TypeTraitsCpu * ggml_get_type_traits_cpu(int32_t type);
ggml_abi::Buffer * ggml_backend_buft_alloc_buffer(ggml_abi::BufferType *, size_t);
ggml_abi::BufferType * ggml_backend_cpu_buffer_type();
void * ggml_backend_cpu_reg();
void * ggml_backend_reg_dev_get(void * reg, size_t index);
size_t ggml_row_size(int32_t type, int64_t ne);
size_t ggml_nbytes(const ggml_abi::Tensor *);
const char * ggml_op_name(int32_t op);
}
