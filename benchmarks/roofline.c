/* What two limits of this machine are: bytes read a second, and 8-bit multiply-adds a second, all cores together.
 *
 *     cc -O3 -march=native -fopenmp benchmarks/roofline.c -o roofline && ./roofline
 *
 * Reads a buffer of the size of a model's weights again and again, then a larger one that no cache holds. The products
 * are AVX-512 VNNI's (`vpdpbusd`, 64 at once) on registers: nothing that multiplies 8-bit numbers is faster.
 */
#include <immintrin.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile int64_t sink;

static double read_rate(size_t bytes, int rounds) {
    __m512i *data = aligned_alloc(64, bytes);
    memset(data, 1, bytes);
    size_t n = bytes / 64;
    double best = 1e9;
    for (int round = 0; round < rounds; round++) {
        double start = omp_get_wtime();
        int64_t sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
        for (size_t chunk = 0; chunk < n / 8; chunk++) {
            __m512i all = _mm512_setzero_si512();
            for (int i = 0; i < 8; i++) all = _mm512_add_epi64(all, data[8 * chunk + i]);
            sum += _mm512_reduce_add_epi64(all);
        }
        sink = sum;
        double seconds = omp_get_wtime() - start;
        if (seconds < best) best = seconds;
    }
    free(data);
    return (double)bytes / best / 1e9;
}

static double product_rate(long rounds) {
    double start = omp_get_wtime();
    int64_t sum = 0;
    int n_threads = omp_get_max_threads();
#pragma omp parallel reduction(+ : sum)
    {
        __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(5), c[12];
        for (int i = 0; i < 12; i++) c[i] = _mm512_set1_epi32(i);
        for (long round = 0; round < rounds; round++) {
            for (int i = 0; i < 12; i++) c[i] = _mm512_dpbusd_epi32(c[i], a, b);
            __asm__ volatile("" : "+v"(a), "+v"(b));
        }
        for (int i = 0; i < 12; i++) sum += _mm512_reduce_add_epi32(c[i]);
    }
    sink = sum;
    return 64.0 * 12 * rounds * n_threads / (omp_get_wtime() - start) / 1e9;
}

int main(void) {
    product_rate(1000);
    printf("{\"read_100_mb_gb_per_s\": %.1f, \"read_2_gb_gb_per_s\": %.1f, \"multiply_adds_g_per_s\": %.0f}\n",
           read_rate(100u << 20, 30), read_rate((size_t)2 << 30, 3), product_rate(20000000));
    return 0;
}
