#include "fmath.h"

#include <stdint.h>
#include <string.h>

static double from_bits(uint64_t u) {
    double d;
    memcpy(&d, &u, sizeof d);
    return d;
}

static double pow2i(int n) {
    return from_bits((uint64_t)(n + 1023) << 52);
}

/* Nearest integer, ties to even, for |x| < 2^51: adding 1.5 * 2^52 leaves no fraction bits. */
static double round_even(double x) {
    const double shift = 6755399441055744.0;
    volatile double y = x + shift;
    return y - shift;
}

/* x = n ln2 + r, |r| <= ln2/2; the Taylor series of exp(r) to r^13 is below 1 ulp there. */
double tn_exp(double x) {
    if (x != x) return x;
    if (x < -745.0) return 0.0;
    if (x > 709.7) return from_bits(0x7ff0000000000000u);
    const double ln2_hi = 0x1.62e42fee00000p-1, ln2_lo = 0x1.a39ef35793c76p-33;
    double n = round_even(x * 1.4426950408889634);
    double r = (x - n * ln2_hi) - n * ln2_lo;
    double sum = 1.0;
    for (int i = 13; i >= 1; i--) sum = 1.0 + sum * r / i;
    int half = (int)n / 2;
    return sum * pow2i(half) * pow2i((int)n - half);
}

/* x = 2^e m, m in [sqrt(1/2), sqrt(2)); log m = 2 atanh((m - 1) / (m + 1)) by its series. */
double tn_log(double x) {
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    int e = (int)(u >> 52) - 1022;
    double m = from_bits((u & 0x000fffffffffffffu) | 0x3fe0000000000000u);
    if (m < 0.70710678118654752) m *= 2, e--;
    double s = (m - 1.0) / (m + 1.0), z = s * s, sum = 0.0;
    for (int i = 21; i >= 1; i -= 2) sum = 1.0 / i + z * sum;
    return e * 0x1.62e42fee00000p-1 + (e * 0x1.a39ef35793c76p-33 + 2.0 * s * sum);
}

double tn_pow(double x, double y) {
    return tn_exp(y * tn_log(x));
}

/* x = n pi/2 + r with pi/2 in three parts, the first two of 22 bits so that n times them is exact for n < 2^31; then
 * Taylor series on |r| <= pi/4 and the quadrant's signs. */
void tn_sincos(double x, double *sin_out, double *cos_out) {
    const double p1 = 0x1.921fbp+0, p2 = 0x1.5110bp-22, p3 = 0x1.18469898cc517p-44;
    double n = round_even(x * 0.63661977236758134);
    double r = ((x - n * p1) - n * p2) - n * p3;
    double z = r * r, s = 0.0, c = 0.0;
    for (int i = 17; i >= 3; i -= 2) s = (1.0 + s) * -z / (i * (i - 1));
    for (int i = 18; i >= 2; i -= 2) c = (1.0 + c) * -z / (i * (i - 1));
    double sine = r + r * s, cosine = 1.0 + c;
    switch ((int64_t)n & 3) {
    case 0: *sin_out = sine, *cos_out = cosine; break;
    case 1: *sin_out = cosine, *cos_out = -sine; break;
    case 2: *sin_out = -sine, *cos_out = -cosine; break;
    default: *sin_out = -cosine, *cos_out = sine; break;
    }
}
