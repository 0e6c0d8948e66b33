// Copy and triad as STREAM defines them (J. D. McCalpin, "Memory Bandwidth and Machine Balance in Current High
// Performance Computers", IEEE TCCA Newsletter, December 1995; https://www.cs.virginia.edu/stream/), and the first
// touch of their arrays by the threads that use them afterwards.
#include <cstddef>

extern "C" {

void first_touch(double* a, double* b, double* c, std::ptrdiff_t elements, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (std::ptrdiff_t i = 0; i < elements; ++i) {
        a[i] = 1.0;
        b[i] = 2.0;
        c[i] = 0.0;
    }
}

void copy(double* __restrict c, const double* __restrict a, std::ptrdiff_t elements, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (std::ptrdiff_t i = 0; i < elements; ++i)
        c[i] = a[i];
}

void triad(double* __restrict a, const double* __restrict b, const double* __restrict c, double scalar,
           std::ptrdiff_t elements, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (std::ptrdiff_t i = 0; i < elements; ++i)
        a[i] = b[i] + scalar * c[i];
}

}
