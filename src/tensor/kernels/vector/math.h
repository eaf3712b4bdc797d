/* Functions of a vector, for all kernels: exp, log, sigmoid, tanh, soft cap and the normal distribution.
 *
 * The F32 variants use polynomials, most of them minimax by Remez' algorithm. The error of each is stated.
 * The F64 variant calls the C library, lane by lane, so that the reference of the tests is exact. Each lane's
 * result depends on that lane alone: position in a row and the length of the row never change a value. */
#ifndef CH_KERNELS_VECTOR_MATH_H
#define CH_KERNELS_VECTOR_MATH_H

#include "tensor/kernels/vector/variant.h"

#ifdef CH_KERNEL_F64

static inline vec vec_exp(vec x) {
  for (int i = 0; i < VL; i++) x[i] = exp(x[i]);
  return x;
}

static inline vec vec_exp_distance(vec x, vec base) {
  return vec_exp(x - base);
}

static inline vec vec_log(vec x) {
  for (int i = 0; i < VL; i++) x[i] = log(x[i]);
  return x;
}

/* Phi(x) = (1 + erf(x / sqrt 2)) / 2, and the density phi(x) = Phi'(x). */
static inline vec vec_normal(vec x, vec *density) {
  vec phi, Phi;
  for (int i = 0; i < VL; i++) {
    Phi[i] = 0.5 * erfc(-x[i] * 0.70710678118654752440);
    phi[i] = 0.39894228040143267794 * exp(-0.5 * x[i] * x[i]);
  }
  *density = phi;
  return Phi;
}

#else

/* p * 2^t for whole t in [-300, 300]; overflows to infinity, underflows gradually. */
ALWAYS_INLINE vec vec_scale(vec p, vec t, ivec t_bits) {
#if defined(__AVX512F__)
  (void)t_bits;
  return (vec)_mm512_scalef_ps((__m512)p, (__m512)t);
#else
  (void)t;
  /* Two factors, because 2^t alone may be past the range of a float when p * 2^t is not. */
  ivec half = t_bits >> 1, rest = t_bits - half;
  return p * (vec)((half + 127) << 23) * (vec)((rest + 127) << 23);
#endif
}

/* Returns the whole number nearest to x / ln 2, as a float and as integers; |x| <= 110. */
ALWAYS_INLINE vec vec_exponent(vec x, ivec *bits) {
  /* Adding 1.5 * 2^23 leaves the nearest whole number in the low bits. */
  const float magic = 12582912.0f;
  vec shifted = vec_fma(x, splat(1.44269504088896341f), splat(magic));
  *bits = (ivec)shifted - 0x4B400000;
  return shifted - magic;
}

/* x - t ln 2, with ln 2 in two parts: the first has 9 trailing zero bits, so that t times it is exact. */
ALWAYS_INLINE vec vec_reduce(vec x, vec t) {
  return vec_fnma(t, splat(1.42860682030941723e-6f), vec_fnma(t, splat(0.693145751953125f), x));
}

/* e^r = 1 + r + r^2 p(r) on |r| <= ln(2)/2; relative error 3.1e-9 before rounding. */
ALWAYS_INLINE vec vec_exp_small(vec r) {
  vec p = vec_fma(splat(0.001381447122319572f), r, splat(0.008368780689673014f));
  p = vec_fma(p, r, splat(0.04166839414873173f));
  p = vec_fma(p, r, splat(0.16666520104806593f));
  p = vec_fma(p, r, splat(0.49999993412685784f));
  return vec_fma(p, r * r, r) + 1.0f;
}

/* e^x to about 1 ulp; 0 below -104, infinity above 88.73, NaN for NaN. */
ALWAYS_INLINE vec vec_exp(vec x) {
  x = vec_min(splat(89.0f), vec_max(splat(-104.0f), x));
  ivec bits;
  vec t = vec_exponent(x, &bits);
  return vec_scale(vec_exp_small(vec_reduce(x, t)), t, bits);
}

/* e^(x - base) for a softmax, with x - base at most 80, in half the operations of vec_exp. The error is
   within 1.6e-7 of the value, plus 6e-8 |x| for values far below 1, which is nothing compared with the largest
   weight. The power of 2 is computed in one step, its fraction by a polynomial (Remez, degree 5). The result
   is 0 if x is -infinity; without AVX-512, values below 2^-126.5 are 0 too. */
ALWAYS_INLINE vec vec_exp_distance(vec x, vec base) {
  const float log2e = 1.44269504088896341f;
#if defined(__AVX512F__)
  const float lowest = -151.0f, magic = 12582912.0f; /* 1.5 * 2^23: see vec_exponent */
#else
  /* The low bits of y + magic become the exponent of 2^t; the lowest t gives 0. */
  const float lowest = -127.0f, magic = 12582912.0f + 127.0f;
#endif
  vec y = vec_max(splat(lowest), vec_fma(x, splat(log2e), -(base * log2e)));
  vec shifted = y + magic, t = shifted - magic, f = y - t;
  vec p = vec_fma(splat(0.00132764725f), f, splat(0.00967554096f));
  p = vec_fma(p, f, splat(0.0555071309f));
  p = vec_fma(p, f, splat(0.240221202f));
  p = vec_fma(p, f, splat(0.693146944f));
  p = vec_fma(p, f, splat(1.0f));
#if defined(__AVX512F__)
  return vec_scale(p, t, (ivec)shifted);
#else
  return p * (vec)((ivec)shifted << 23);
#endif
}

/* log x within 2e-7 of its value (near 1: within 2e-8) for normal positive x; -infinity for 0, NaN for NaN.
   x = 2^e m with m in [sqrt 1/2, sqrt 2), and log m = 2 artanh(s) for s = (m - 1) / (m + 1), |s| < 0.172: the
   odd Taylor polynomial of degree 9 is within 3e-9 s. */
ALWAYS_INLINE vec vec_log(vec x) {
  ivec exponent = ((ivec)x - 0x3f3504f3) >> 23; /* bits of sqrt 1/2 */
  vec m = (vec)((ivec)x - (exponent << 23)), e = __builtin_convertvector(exponent, vec);
  vec s = (m - 1.0f) / (m + 1.0f), z = s * s;
  vec p = vec_fma(z, splat(0.222222222f), splat(0.285714286f));
  p = vec_fma(p, z, splat(0.4f));
  p = vec_fma(p, z, splat(0.666666667f));
  vec small = vec_fma(e, splat(1.42860682030941723e-6f), vec_fma(s * z, p, s + s));
  vec log = vec_fma(e, splat(0.693145751953125f), small);
  log = choose(x > splat(0), log, splat(-INFINITY));
  return choose(x == x, log, x);
}

/* Phi(x) = (1 + erf(x / sqrt 2)) / 2 to about 1e-7 of its value (also where it is tiny), and phi(x) =
   Phi'(x). Phi(-|x|) = e^(-x^2/2) R(|x|), where R, a smooth function, is a polynomial in 1 / (1 + 0.35
   |x|). */
ALWAYS_INLINE vec vec_normal(vec x, vec *density) {
  vec magnitude = (vec)((ivec)x & 0x7fffffff);
  magnitude = vec_min(splat(14.5f), magnitude);
  /* -x^2/2 in two parts: the square of a number of 12 bits is exact. */
  vec high = (vec)((ivec)magnitude & (int32_t)0xfffff000);
  vec square = high * high * -0.5f, rest = (magnitude - high) * (magnitude + high) * -0.5f;
  ivec bits;
  vec t = vec_exponent(square + rest, &bits);
  vec gauss = vec_scale(vec_exp_small(vec_reduce(square, t) + rest), t, bits);
  vec u = 1.0f / vec_fma(splat(0.35f), magnitude, splat(1.0f));
  vec r = vec_fma(splat(-0.02915782526f), u, splat(0.1440306757f));
  r = vec_fma(r, u, splat(-0.2558385998f));
  r = vec_fma(r, u, splat(0.159319339f));
  r = vec_fma(r, u, splat(-0.02321217265f));
  r = vec_fma(r, u, splat(0.105552449f));
  r = vec_fma(r, u, splat(0.1198212963f));
  r = vec_fma(r, u, splat(0.1398635148f));
  r = vec_fma(r, u, splat(0.1396213069f));
  vec tail = gauss * (r * u);
  *density = gauss * 0.398942280401432678f;
  return choose(x > splat(0), 1.0f - tail, tail);
}

#endif

/* 1 / (1 + e^-x). */
ALWAYS_INLINE vec vec_sigmoid(vec x) {
  return 1 / (1 + vec_exp(-x));
}

/* Returns the slope of silu(x) = x s at x, for s = sigmoid(x): s (1 + x (1 - s)). */
ALWAYS_INLINE vec silu_slope(vec x, vec s) {
  return s * vec_fma(x, 1 - s, splat(1));
}

/* tanh x. Small x use Lambert's continued fraction, x / (1 + x^2 / (3 + x^2 / (5 + x^2 / (7 + x^2 / 9)))), so
   that no digits cancel. Its relative error grows as x^10, and stays below the type's rounding where it is
   used. */
ALWAYS_INLINE vec vec_tanh(vec x) {
  const real small = sizeof(real) == sizeof(double) ? (real)0.02 : (real)0.5;
  vec size = vec_max(x, -x), squared = x * x;
  vec above = vec_fma(squared, 105 + squared, splat(945)),
      below = vec_fma(squared, vec_fma(squared, splat(15), splat(420)), splat(945));
  vec near = x * above / below;
  vec far = 1 - 2 / (1 + vec_exp(2 * vec_min(size, splat(30))));
  return choose(size < small, near, choose(x < 0, -far, far));
}

/* Returns cap tanh(x / cap), which is between -cap and cap. */
ALWAYS_INLINE vec soft_capped(vec x, real cap) {
  return cap * vec_tanh(x * (1 / cap));
}

/* Returns the slope of the soft cap at the x for which soft_capped returned `capped`. */
ALWAYS_INLINE vec soft_cap_slope(vec capped, real cap) {
  capped *= 1 / cap;
  return vec_fnma(capped, capped, splat(1));
}

/* e^x of one value, the same bits as a lane of vec_exp. */
static inline real real_exp(real x) {
  return vec_exp(splat(x))[0];
}

static inline real real_log(real x) {
  return vec_log(splat(x))[0];
}

#endif
