// Which columns go to which expert in a mixture (ggml's MUL_MAT_ID).
#pragma once

#include "plan.h"

namespace kernels {

// A column of the result: the place of the expert among those of its token, and the token.
struct Routed {
    int32_t place, token;
};

struct Routing {
    int64_t n_experts, n_places, n_tokens;
    int32_t * starts;  // (n_experts + 1) where each expert's columns begin
    Routed * routed;   // (n_places * n_tokens) grouped by expert

    static size_t bytes(const Tensor * op) {
        return lines((op->src[0]->ne[2] + 1) * 4) + lines(n_routed(op) * sizeof(Routed));
    }
    static int64_t n_routed(const Tensor * op) { return op->src[2]->ne[0] * op->src[2]->ne[1]; }

    Routing(const Tensor * op, char * work)
        : n_experts(op->src[0]->ne[2]), n_places(op->src[2]->ne[0]), n_tokens(op->src[2]->ne[1]),
          starts((int32_t *)work), routed((Routed *)(work + lines((n_experts + 1) * 4))) {}

    // One thread, before the barrier. Ids outside the experts are left out: their rows stay as they were.
    void fill(const Tensor * op) {
        const Tensor * ids = op->src[2];
        const auto expert = [&](int64_t place, int64_t token) {
            return *(const int32_t *)((const char *)ids->data + place * ids->nb[0] + token * ids->nb[1]);
        };
        std::fill(starts, starts + n_experts + 1, 0);
        for (int64_t t = 0; t < n_tokens; t++)
            for (int64_t p = 0; p < n_places; p++)
                if (const int32_t e = expert(p, t); e >= 0 && e < n_experts) starts[e + 1]++;
        for (int64_t e = 0; e < n_experts; e++) starts[e + 1] += starts[e];
        for (int64_t t = 0; t < n_tokens; t++)
            for (int64_t p = 0; p < n_places; p++)
                if (const int32_t e = expert(p, t); e >= 0 && e < n_experts)
                    routed[starts[e]++] = {(int32_t)p, (int32_t)t};
        // Filling has moved each start to the next one's place.
        for (int64_t e = n_experts; e > 0; e--) starts[e] = starts[e - 1];
        starts[0] = 0;
    }

    // The column of src1 that a routed column multiplies: one a token, or one for each of its experts.
    static int64_t source(const Tensor * op, Routed r) { return r.token * op->src[1]->ne[1] + r.place % op->src[1]->ne[1]; }
    static float * result(const Tensor * op, Routed r) {
        return (float *)((char *)op->data + r.place * op->nb[1] + r.token * op->nb[2]);
    }
};

}  // namespace kernels
