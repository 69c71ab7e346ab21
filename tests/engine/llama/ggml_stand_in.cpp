// Just enough of ggml that `afterword_kernels_digest` can run on a processor that ggml was not built for.
#include "ggml_abi.h"
#include <cstdio>
using namespace ggml_abi;
std::vector<BufferType *> & ggml_backend_cpu_get_extra_buffer_types() { static std::vector<BufferType *> types; return types; }
extern "C" {
void ggml_barrier(void *) {}
static void to_float(const void *, float *, int64_t) {}
const TypeTraits * ggml_get_type_traits(int32_t) { static TypeTraits traits{"", 1, 1, 2, false, to_float, nullptr}; return &traits; }
const TypeTraitsCpu * ggml_get_type_traits_cpu(int32_t) { return nullptr; }
Buffer * ggml_backend_buft_alloc_buffer(BufferType *, size_t) { return nullptr; }
BufferType * ggml_backend_cpu_buffer_type() { return nullptr; }
void * ggml_backend_cpu_reg() { return nullptr; }
void * ggml_backend_reg_dev_get(void *, size_t) { return nullptr; }
size_t ggml_row_size(int32_t type, int64_t ne) {
    switch (type) {
        case F32: return ne * 4;
        case F16: case BF16: return ne * 2;
        case Q4_0: return ne / 32 * 18;
        case Q4_1: return ne / 32 * 20;
        case Q5_0: return ne / 32 * 22;
        case Q5_1: return ne / 32 * 24;
        case Q8_0: return ne / 32 * 34;
        case Q4_K: return ne / 256 * 144;
        case Q5_K: return ne / 256 * 176;
        case Q6_K: return ne / 256 * 210;
    }
    return 0;
}
size_t ggml_nbytes(const Tensor * t) { return ggml_row_size(t->type, t->ne[0]) * t->ne[1] * t->ne[2] * t->ne[3]; }
const char * ggml_op_name(int32_t) { return "GLU"; }
uint64_t afterword_kernels_digest();
const char * afterword_kernels_path();
}
int main() { std::printf("%s %016llx\n", afterword_kernels_path(), (unsigned long long)afterword_kernels_digest()); }
