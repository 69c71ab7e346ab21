// The memory of KV caches: reserved whole, but a page is taken only when a cell on it is first written, and is given back
// when no cell on it is used any more. So a context may have far more cells than there is memory for.
//
// llama.cpp allocates a cache like any buffer, fills it with zeros, which takes every page, never gives one back, and
// copies a slot with all its cells, used or not. Here buffers that are allocated while a `Caches` listens are mappings, whose
// pages are zeros until they are written, and copies have as many cells as are said to be used.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "ggml_abi.h"

using namespace ggml_abi;

namespace {

// Keys or values of a layer: slots of cells, which lie one behind the other.
struct Cache {
    char * data;
    size_t cell_bytes, slot_bytes, n_slots;
};

struct Caches {
    std::vector<Cache> all;
    std::map<int64_t, int64_t> used;  // cells that a copy to a slot has, if not all
};

// In front of a buffer's memory, on a page of its own.
struct Header {
    Caches * owner;
};

thread_local Caches * listening = nullptr;

decltype(BufferTypeInterface::alloc_buffer) allocate_as_ggml = nullptr;

// llama.cpp's names: cache_k_l0, cache_v_l0, some with a tag before the k or v. States of recurrent layers have others.
bool is_cache(const Tensor * t) {
    return std::strncmp(t->name, "cache_", 6) == 0 && (std::strstr(t->name, "k_l") || std::strstr(t->name, "v_l"));
}

size_t page_bytes() { return (size_t)sysconf(_SC_PAGESIZE); }

Header * header_of(const Buffer * buffer) { return (Header *)((char *)buffer->context - page_bytes()); }

void unmap(Buffer * buffer) { munmap(header_of(buffer), buffer->size + page_bytes()); }

// What llama.cpp calls to copy a slot of a cache, among other things.
void set_tensor(Buffer * buffer, Tensor * t, const void * data, size_t offset, size_t size) {
    const Caches & caches = *header_of(buffer)->owner;
    for (const Cache & cache : caches.all) {
        const size_t place = (size_t)((char *)t->data - cache.data);
        if ((char *)t->data < cache.data || size != cache.slot_bytes || place % cache.slot_bytes != 0) continue;
        const auto used = caches.used.find((int64_t)(place / cache.slot_bytes));
        if (place / cache.slot_bytes < cache.n_slots && used != caches.used.end())
            size = std::min(size, (size_t)used->second * cache.cell_bytes);
    }
    std::memcpy((char *)t->data + offset, data, size);
}

int note_cache(Buffer *, Tensor * t) {
    if (listening != nullptr && t->view_src == nullptr && is_cache(t)) listening->all.push_back({(char *)t->data, t->nb[1], t->nb[2], (size_t)t->ne[2]});
    return 0;
}

// Only Linux lets a program choose.
void ask_for_large_pages(void * pages, size_t size, bool wanted) {
#ifdef MADV_HUGEPAGE
    madvise(pages, size, wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#else
    (void)pages, (void)size, (void)wanted;
#endif
}

// The pages take no memory until they are written again, and are zero then.
void give_back(void * pages, size_t size) {
#ifdef __linux__
    madvise(pages, size, MADV_DONTNEED);
#else
    // Elsewhere that advice may leave what was there.
    mmap(pages, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
#endif
}

// Only caches are cleared. Their pages are small ones: the first token of a slot would have the system clear a large page for
// the keys and one for the values of each layer, 120 MB for 30 layers.
void clear(Buffer * buffer, uint8_t value) {
    if (listening != nullptr) ask_for_large_pages(buffer->context, buffer->size, false);
    if (value != 0) std::memset(buffer->context, value, buffer->size);
    else give_back(buffer->context, buffer->size);
}

Buffer * allocate(BufferType * type, size_t size) {
    if (listening == nullptr) return allocate_as_ggml(type, size);
    void * mapping = mmap(nullptr, size + page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) return nullptr;
    void * pages = (char *)mapping + page_bytes();
    ask_for_large_pages(pages, size, true);
    ((Header *)mapping)->owner = listening;
    Buffer * buffer = allocate_as_ggml(type, 1);
    if (buffer == nullptr) {
        munmap(mapping, size + page_bytes());
        return nullptr;
    }
    buffer->iface.free_buffer(buffer);  // its memory; the structure stays
    buffer->context = pages;
    buffer->size = size;
    buffer->iface.free_buffer = unmap;
    buffer->iface.init_tensor = note_cache;
    buffer->iface.set_tensor = set_tensor;
    buffer->iface.clear = clear;
    return buffer;
}

}  // namespace

extern "C" {

void * afterword_caches_new() { return new Caches{{}, {}}; }

void afterword_caches_free(void * caches) { delete (Caches *)caches; }

// What this thread allocates from now on are mappings, and the caches among them are noted; null ends that.
void afterword_caches_listen(void * caches) {
    auto & interface = ggml_backend_cpu_buffer_type()->iface;
    if (allocate_as_ggml == nullptr) {
        allocate_as_ggml = interface.alloc_buffer;
        interface.alloc_buffer = allocate;
    }
    listening = (Caches *)caches;
}

// Copies to a slot have that many cells; negative: all of them.
void afterword_caches_limit(void * caches, int64_t slot, int64_t n_cells) {
    auto & used = ((Caches *)caches)->used;
    if (n_cells < 0) used.erase(slot);
    else used[slot] = n_cells;
}

// Gives back the pages that hold nothing but cells of a slot from `first` on.
void afterword_caches_release(const void * caches, int64_t slot, int64_t first) {
    const size_t page = page_bytes();
    for (const Cache & cache : ((const Caches *)caches)->all) {
        char * slot_begins = cache.data + slot * cache.slot_bytes;
        const size_t begin = ((size_t)(slot_begins + first * cache.cell_bytes) + page - 1) / page * page;
        const size_t end = (size_t)(slot_begins + cache.slot_bytes) / page * page;
        if (begin < end) give_back((void *)begin, end - begin);
    }
}

}
