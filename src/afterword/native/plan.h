// What the products have in common: where columns lie, how work is shared between the threads of ggml's pool.
#pragma once

#include <algorithm>
#include <atomic>
#include <new>

#include "ggml_abi.h"

namespace kernels {

using ggml_abi::ComputeParams;
using ggml_abi::Tensor;

constexpr size_t LINE = 64;  // bytes of a cache line
static inline size_t lines(size_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }

// The columns of a tensor of up to four dimensions, numbered through.
struct Places {
    char * base;
    int64_t n1, n2;
    size_t nb1, nb2, nb3;
    bool flat;

    explicit Places(const Tensor * t)
        : base((char *)t->data), n1(t->ne[1]), n2(t->ne[2]), nb1(t->nb[1]), nb2(t->nb[2]), nb3(t->nb[3]),
          flat(t->ne[2] == 1 && t->ne[3] == 1) {}

    float * operator()(int64_t c) const {
        if (flat) return (float *)(base + c * nb1);
        const int64_t i23 = c / n1;
        return (float *)(base + c % n1 * nb1 + i23 % n2 * nb2 + i23 / n2 * nb3);
    }
};

// Shares units of work: whoever is free takes the next ones, so a thread that is held up holds up nobody else for long.
class Shares {
  public:
    static constexpr size_t BYTES = LINE;

    // Every thread calls it with the start of the work area; the barrier behind it makes it one for all.
    Shares(const ComputeParams * params) : next_((std::atomic<int64_t> *)params->wdata), params_(params) {
        if (params->ith == 0) new (next_) std::atomic<int64_t>(0);
    }

    void barrier() const {
        if (params_->nth > 1) ggml_barrier(params_->threadpool);
    }

    // Calls `work(first, last)` for runs of `run` of the n units until none are left.
    template <class Work> void each(int64_t n, int64_t run, Work work) const {
        for (;;) {
            const int64_t first = next_->fetch_add(run, std::memory_order_relaxed);
            if (first >= n) return;
            work(first, std::min(first + run, n));
        }
    }

    // Runs so that each thread gets some eight of them.
    int64_t run_of(int64_t n) const { return std::max<int64_t>(1, n / (8 * params_->nth)); }

  private:
    std::atomic<int64_t> * next_;
    const ComputeParams * params_;
};

// A thread's even part of n units: for work that costs the same everywhere.
static inline void part_of(const ComputeParams * params, int64_t n, int64_t & first, int64_t & last) {
    first = n * params->ith / params->nth;
    last = n * (params->ith + 1) / params->nth;
}

}  // namespace kernels
