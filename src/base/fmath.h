/* Elementary functions in double precision from + - * / alone, so that every machine and C library gives the same bits.
 * Accurate to a few units in the last place over the ranges used (rotary angles, sampling); not for kernels. */
#ifndef TN_BASE_FMATH_H
#define TN_BASE_FMATH_H

double tn_exp(double x);           /* 0 below -745, infinity above 709.7 */
double tn_log(double x);           /* x > 0 and normal */
double tn_pow(double x, double y); /* exp(y log x), x > 0 */

/* Sine and cosine together; |x| <= 2^31. */
void tn_sincos(double x, double *sin_out, double *cos_out);

#endif
