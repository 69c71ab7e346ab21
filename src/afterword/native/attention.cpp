// Every query is computed by itself: spans of cells in ascending order, with a running maximum and a running sum. A span
// that is masked whole for a query leaves it as it was. So a query's numbers depend neither on how many cells there are
// behind its own, nor on the queries beside it, nor on threads.

#include "attention.h"

#include <cmath>
#include <limits>

#include "softmax.h"
#include "spans.h"

namespace kernels {

using namespace ggml_abi;

constexpr int64_t MOST_QUERIES = 32;  // of a unit of work
constexpr int64_t FEW_QUERIES = 8;    // that need no copy of the span as floats
constexpr float NOTHING = -std::numeric_limits<float>::infinity();
constexpr uint16_t MASKED = 0xFC00;   // minus infinity as a half

static int64_t padded(int64_t n) { return (n + SIXTEEN - 1) / SIXTEEN * SIXTEEN; }

static bool has_floats(int32_t type) { return type == F32 || ggml_get_type_traits(type)->to_float != nullptr; }

bool can_attend(const Tensor * op) {
    const Tensor *q = op->src[0], *k = op->src[1], *v = op->src[2];
    return q->type == F32 && q->nb[0] == 4 && op->type == F32 && op->nb[0] == 4 && has_floats(k->type) && has_floats(v->type);
}

namespace {

// What an operation asks for, in the numbers of its tensors.
struct Asked {
    const Tensor *q, *k, *v, *mask, *sinks;
    Tensor * out;
    float scale, max_bias, cap;
    int64_t n_key, n_value;  // elements of a key and of a value
    int64_t group;           // heads of queries for one of keys
    int64_t n_columns;       // queries for one head of keys in one slot: heads of a token side by side

    explicit Asked(Tensor * op)
        : q(op->src[0]), k(op->src[1]), v(op->src[2]), mask(op->src[3]), sinks(op->src[4]), out(op),
          n_key(k->ne[0]), n_value(v->ne[0]), group(q->ne[2] / k->ne[2]), n_columns(q->ne[1] * group) {
        std::memcpy(&scale, op->op_params, 4);
        std::memcpy(&max_bias, op->op_params + 1, 4);
        std::memcpy(&cap, op->op_params + 2, 4);
        if (cap != 0) scale /= cap;
    }

    // ALiBi: by how much a head's mask counts. Press et al., "Train short, test long", with ggml's two series.
    float slope(int64_t head) const {
        if (max_bias <= 0) return 1.0f;
        const int64_t n = (int64_t)1 << (int64_t)std::floor(std::log2((double)q->ne[2]));
        return head < n ? std::pow(std::pow(2.0f, -max_bias / (float)n), (float)(head + 1))
                        : std::pow(std::pow(2.0f, -max_bias / 2.0f / (float)n), (float)(2 * (head - n) + 1));
    }
};

// One query on its way through the spans.
struct Query {
    int64_t head, token, slot;
    const uint16_t * mask;  // null: nothing is masked
    float slope, most;
    Sixteen total;          // partial sums of the weights
    float *x, *sum, *score; // padded query, sums of values, scores of a span, then weights
    int64_t first, last;    // the cells of the span that are not masked lie between; none if equal
};

// The part of a thread's memory for a unit of work.
struct Scratch {
    float *x, *sum, *score, *keys, *values;

    static size_t floats(const Asked & a) {
        return MOST_QUERIES * (padded(a.n_key) + padded(a.n_value) + SPAN) + SPAN * (padded(a.n_key) + padded(a.n_value));
    }
    Scratch(const Asked & a, float * memory)
        : x(memory), sum(x + MOST_QUERIES * padded(a.n_key)), score(sum + MOST_QUERIES * padded(a.n_value)),
          keys(score + MOST_QUERIES * SPAN), values(keys + SPAN * padded(a.n_key)) {}
};

Query begin(const Asked & a, const Scratch & scratch, int64_t slot, int64_t key_head, int64_t column, int64_t place) {
    Query query{};
    query.slot = slot, query.head = key_head * a.group + column % a.group, query.token = column / a.group;
    if (a.mask != nullptr)
        query.mask = (const uint16_t *)((const char *)a.mask->data + query.token * a.mask->nb[1] +
                                        query.head % a.mask->ne[2] * a.mask->nb[2] + slot % a.mask->ne[3] * a.mask->nb[3]);
    query.slope = a.slope(query.head);
    query.most = NOTHING;
    query.x = scratch.x + place * padded(a.n_key);
    query.sum = scratch.sum + place * padded(a.n_value);
    query.score = scratch.score + place * SPAN;
    std::fill(query.x + a.n_key, query.x + padded(a.n_key), 0.0f);
    std::memcpy(query.x, (const char *)a.q->data + query.token * a.q->nb[1] + query.head * a.q->nb[2] + slot * a.q->nb[3],
                a.n_key * 4);
    std::fill(query.sum, query.sum + padded(a.n_value), 0.0f);
    return query;
}

// Four masks of minus infinity.
constexpr uint64_t FOUR_MASKED = 0xFC00FC00FC00FC00ull;

// Where the cells of a span that are not masked begin and end.
void find_cells(Query & query, int64_t start, int64_t n) {
    query.first = 0, query.last = n;
    if (query.mask == nullptr) return;
    const uint16_t * mask = query.mask + start;
    const auto four_masked = [&](int64_t c) {
        uint64_t four;
        std::memcpy(&four, mask + c, 8);
        return four == FOUR_MASKED;
    };
    while (query.last >= 4 && four_masked(query.last - 4)) query.last -= 4;
    while (query.last > 0 && mask[query.last - 1] == MASKED) query.last--;
    while (query.first + 4 <= query.last && four_masked(query.first)) query.first += 4;
    while (query.first < query.last && mask[query.first] == MASKED) query.first++;
}

// Scores as the softmax takes them: scaled, capped, masked. `mask` has SPAN halves. Returns their maximum.
float prepare(const Asked & a, const Query & query, const uint16_t * mask) {
    Floats most = broadcast(NOTHING);
    for (int64_t c = 0; c < SPAN; c += LANES) {
        const Floats bias = load_halves(mask + c);
        Floats s = load<Floats>(query.score + c) * broadcast(a.scale);
        if (a.cap != 0) s = broadcast(a.cap) * hyperbolic_tangent(s);
        s = choose(bias == broadcast(NOTHING), bias, s + broadcast(query.slope) * bias);
        store(query.score + c, s);
        most = greater(s, most);
    }
    float result = NOTHING;
    for (int lane = 0; lane < LANES; lane++) result = most[lane] > result ? most[lane] : result;
    return result;
}

// Scores of the span become weights; what was summed before is scaled to the new maximum.
void weigh(const Asked & a, Query & query, int64_t start, int64_t n_cells) {
    uint16_t mask[SPAN];
    std::fill(mask, mask + SPAN, MASKED);
    if (query.mask != nullptr) std::memcpy(mask, query.mask + start, 2 * n_cells);
    else std::fill(mask, mask + n_cells, (uint16_t)0);
    const float most = prepare(a, query, mask);
    if (most > query.most) {
        const Floats factor = broadcast(exponential(query.most - most));
        for (Floats & part : query.total.part) part *= factor;
        for (int64_t d = 0; d < padded(a.n_value); d += LANES) store(query.sum + d, load<Floats>(query.sum + d) * factor);
        query.most = most;
    }
    for (int64_t c = 0; c < SPAN; c += SIXTEEN)
        for (int p = 0; p < PARTS; p++) {
            float * at = query.score + c + p * LANES;
            const Floats weight = exponential(load<Floats>(at) - broadcast(query.most));
            store(at, weight);
            query.total.part[p] += weight;
        }
}

// A sink is a score without a value: it only takes a share of the weights.
void finish(const Asked & a, Query & query) {
    float total = sum16(query.total), factor = 1.0f;
    if (a.sinks != nullptr) {
        const float sink = ((const float *)a.sinks->data)[query.head];
        if (sink > query.most) {
            factor = exponential(query.most - sink);
            total = total * factor + 1.0f;
        } else {
            total += exponential(sink - query.most);
        }
    }
    // No cell and no sink: nothing to attend to.
    const float share = total == 0.0f ? 0.0f : factor / total;
    float * out = (float *)((char *)a.out->data + query.head * a.out->nb[1] + query.token * a.out->nb[2] + query.slot * a.out->nb[3]);
    for (int64_t d = 0; d < a.n_value; d++) out[d] = query.sum[d] * share;
}

// Whether rows can be read as they lie.
bool as_halves(const Tensor * t) { return t->type == F16 && t->ne[0] % SIXTEEN == 0 && t->nb[1] % 2 == 0; }

// Blocks of 32 numbers: a scale, then integers.
void from_q8_0(const char * row, int64_t n, float * out) {
    constexpr int64_t BLOCK_BYTES = 34, BLOCK_NUMBERS = 32;
    for (int64_t i = 0; i < n; i += BLOCK_NUMBERS, row += BLOCK_BYTES) {
        const Floats scale = broadcast(half_to_float(load<uint16_t>(row)));
        for (int64_t j = 0; j < BLOCK_NUMBERS; j += LANES)
            store(out + i + j, kernels::to_floats(load_signed(row + 2 + j)) * scale);
    }
}

// A row of `n` elements, a multiple of LANES for halves; ggml's own conversions take elements one by one.
void to_floats(const Tensor * t, const char * row, float * out) {
    const int64_t n = t->ne[0];
    if (t->type == F32) std::memcpy(out, row, n * 4);
    else if (as_halves(t))
        for (int64_t i = 0; i < n; i += LANES) store(out + i, load_halves(row + 2 * i));
    else if (t->type == Q8_0) from_q8_0(row, n, out);
    else ggml_get_type_traits(t->type)->to_float(row, out, n);
}

// Cells first..last of a span as floats, padded with zeros.
void copy_span(const Tensor * t, const char * rows, int64_t first, int64_t last, float * out) {
    const int64_t n = t->ne[0], width = padded(n);
    for (int64_t c = first; c < last; c++) {
        to_floats(t, rows + c * t->nb[1], out + c * width);
        std::fill(out + c * width + n, out + (c + 1) * width, 0.0f);
    }
}

// A group of queries that have cells in the span, through both products.
struct Step {
    const Asked & a;
    Query ** query;
    int n;
    int64_t first, last;  // cells that any of them has

    Step(const Asked & a_, Query ** query_, int n_) : a(a_), query(query_), n(n_), first(SPAN), last(0) {
        for (int i = 0; i < n; i++) {
            first = std::min(first, query[i]->first);
            last = std::max(last, query[i]->last);
        }
    }

    template <class E> void score(Rows<E> keys, int64_t n_cells) const {
        const int64_t whole = n_cells / 4 * 4;
        for (int i = 0; i < n; i += SCORE_QUERIES) {
            const int some = std::min(SCORE_QUERIES, n - i);
            const float * x[SCORE_QUERIES];
            float * to[SCORE_QUERIES];
            for (int j = 0; j < some; j++) x[j] = query[i + j]->x, to[j] = query[i + j]->score;
            const int64_t from = first / 4 * 4;
            scores(keys, from, std::min((last + 3) / 4 * 4, whole), padded(a.n_key), x, to, some);
            // A context whose length is no multiple of four: its last cells by themselves.
            for (int64_t c = std::max(from, whole); c < last; c++) lone_score(keys, c, x, to, some);
        }
    }

    template <class E> void lone_score(Rows<E> keys, int64_t c, const float * const * x, float * const * to, int some) const {
        const Rows<E> same{keys[c], 0};
        for (int j = 0; j < some; j++) {
            float four[4], *at = four;
            four_scores<E, 1>(same, 0, padded(a.n_key), x + j, &at);
            to[j][c] = four[0];
        }
    }

    template <class E> void add(Rows<E> values) const {
        for (int i = 0; i < n; i += VALUE_QUERIES) {
            const int some = std::min(VALUE_QUERIES, n - i);
            const float * weight[VALUE_QUERIES];
            float * sum[VALUE_QUERIES];
            for (int j = 0; j < some; j++) weight[j] = query[i + j]->score, sum[j] = query[i + j]->sum;
            weighted(values, first, last, padded(a.n_value), weight, sum, some);
        }
    }
};

// All spans for the queries of a unit.
void attend(const Asked & a, const Scratch & scratch, Query * queries, int n_queries, const char * keys, const char * values) {
    const bool few = n_queries <= FEW_QUERIES, key_halves = few && as_halves(a.k), value_halves = few && as_halves(a.v);
    for (int64_t start = 0; start < a.k->ne[1]; start += SPAN) {
        const int64_t n_cells = std::min<int64_t>(SPAN, a.k->ne[1] - start);
        Query * some[MOST_QUERIES];
        int n = 0;
        for (int i = 0; i < n_queries; i++) {
            find_cells(queries[i], start, n_cells);
            if (queries[i].first < queries[i].last) some[n++] = &queries[i];
        }
        if (n == 0) continue;
        const Step step(a, some, n);
        const char *key = keys + start * a.k->nb[1], *value = values + start * a.v->nb[1];
        if (key_halves) {
            step.score(Rows<Half>{(const uint16_t *)key, a.k->nb[1] / 2}, n_cells);
        } else {
            copy_span(a.k, key, step.first / 4 * 4, std::min((step.last + 3) / 4 * 4, n_cells), scratch.keys);
            step.score(Rows<Single>{scratch.keys, (size_t)padded(a.n_key)}, n_cells);
        }
        for (int i = 0; i < n; i++) weigh(a, *some[i], start, n_cells);
        if (value_halves) {
            step.add(Rows<Half>{(const uint16_t *)value, a.v->nb[1] / 2});
        } else {
            copy_span(a.v, value, step.first, step.last, scratch.values);
            step.add(Rows<Single>{scratch.values, (size_t)padded(a.n_value)});
        }
    }
}

}  // namespace

size_t attention_work(const Tensor * op, int n_threads) {
    return Shares::BYTES + n_threads * lines(4 * Scratch::floats(Asked(const_cast<Tensor *>(op))));
}

void attention(const ComputeParams * params, Tensor * op) {
    const Asked a(op);
    const Shares shares(params);
    const Scratch scratch(a, (float *)((char *)params->wdata + Shares::BYTES + params->ith * lines(4 * Scratch::floats(a))));
    shares.barrier();
    // Few queries are shared finely, so that every thread has some.
    const int64_t n_matrices = a.k->ne[2] * a.q->ne[3];
    const int64_t fair = a.n_columns * n_matrices / (4 * params->nth);
    const int64_t run = params->nth == 1 ? MOST_QUERIES : std::clamp<int64_t>(fair, 1, MOST_QUERIES);
    const int64_t n_runs = (a.n_columns + run - 1) / run;
    shares.each(n_matrices * n_runs, 1, [&](int64_t unit, int64_t) {
        const int64_t matrix = unit / n_runs, first = unit % n_runs * run, n = std::min(run, a.n_columns - first);
        const int64_t key_head = matrix % a.k->ne[2], slot = matrix / a.k->ne[2];
        const int64_t key_slot = slot / (a.q->ne[3] / a.k->ne[3]), value_slot = slot / (a.q->ne[3] / a.v->ne[3]);
        const int64_t value_head = key_head * a.group / (a.q->ne[2] / a.v->ne[2]);
        Query queries[MOST_QUERIES];
        for (int64_t i = 0; i < n; i++) queries[i] = begin(a, scratch, slot, key_head, first + i, i);
        attend(a, scratch, queries, (int)n, (const char *)a.k->data + key_head * a.k->nb[2] + key_slot * a.k->nb[3],
               (const char *)a.v->data + value_head * a.v->nb[2] + value_slot * a.v->nb[3]);
        for (int64_t i = 0; i < n; i++) finish(a, queries[i]);
    });
}

}  // namespace kernels
