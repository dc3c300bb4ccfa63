"""Branch-free float32 math for the C++ prelude, for vectors and scalars alike.

Maximum errors are against correctly rounded results, over the whole range unless stated (tests/builtin measures them).
tanh and sigmoid divide by way of a reciprocal estimate and one Newton step (``recip``). float64 goes to the C library, lane by lane.
The reductions and polynomials of exp, log and tanh follow Cephes (S. Moshier, "Methods and Programs for Mathematical
Functions", 1989) and erf follows the two-interval form of its float version, with re-fitted coefficients.
"""

from __future__ import annotations

MATH: dict[str, tuple[str, tuple[str, ...]]] = {
    "recip": (
        """\
template <class V> INLINE V recip(V x) {  // 1 / x within 1 ulp for finite, normal x
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64 && sizeof(typename lanes<V>::item) == 4) {
    const V r = bits<V>(_mm512_rcp14_ps(bits<__m512>(x)));
    return r * (2.0f - x * r);
  }
#endif
  return 1.0f / x;
}
""",
        (),
    ),
    "expm1_core": (
        """\
// exp(x) = 2^n (1 + p) for |x| < 90: n = round(x / ln 2) as a float, p = exp(x - n ln 2) - 1; returns p.
template <class V> INLINE V expm1_core(V x, V& n) {
  n = (x * 1.44269504088896341f + 12582912.0f) - 12582912.0f;  // adding 1.5 * 2^23 rounds to an integer
  V r = x - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  V q = splat<V>(1.9875691500e-4f);
  q = q * r + 1.3981999507e-3f;
  q = q * r + 8.3334519073e-3f;
  q = q * r + 4.1665795894e-2f;
  q = q * r + 1.6666665459e-1f;
  q = q * r + 5.0000001201e-1f;
  return q * (r * r) + r;
}
template <class V> INLINE V power_of_two(V n) { return bits<V>((convert<like<V, i32>>(n) + 127) << 23); }  // |n| < 127
template <class V> INLINE V clamped(V x, float low, float high) {  // NaN stays
  x = select(splat<V>(high) < x, splat<V>(high), x);
  return select(splat<V>(low) > x, splat<V>(low), x);
}
""",
        (),
    ),
    "exp": (
        """\
template <class V> INLINE V exp_(V x) {  // 1 ulp; zero where the result is no normal number, below -87.3365; overflows to inf
  if constexpr (sizeof(typename lanes<V>::item) == 8) return each(x, [](double a) { return std::exp(a); });
  else {
    // A subnormal, on the way or as the result, takes a processor a hundred cycles: masked scores and far tails must not come to one.
    const auto gone = x < -87.33654f;
    V n;
    const V p = expm1_core(select(gone, splat<V>(0.0f), select(x > 89.0f, splat<V>(89.0f), x)), n);
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64) {
      const V r = bits<V>(_mm512_scalef_ps(bits<__m512>(p + 1.0f), bits<__m512>(n)));
      return select(gone, splat<V>(0.0f), r);
    }
#endif
    const V a = convert<V>(convert<like<V, i32>>(n) >> 1);  // two factors, so that neither leaves the exponent range
    return select(gone, splat<V>(0.0f), (p + 1.0f) * power_of_two(a) * power_of_two(V(n - a)));
  }
}
""",
        ("each", "expm1_core"),
    ),
    "sigmoid": (
        """\
template <class V> INLINE V sigmoid(V x) {  // 4 ulp
  if constexpr (sizeof(typename lanes<V>::item) == 8) return each(x, [](double a) { return 1.0 / (1.0 + std::exp(-a)); });
  else {
    V n;
    const V p = expm1_core(clamped(V(-x), -30.0f, 87.0f), n);  // beyond 17 it is 1; p * scale stays a normal number
    const V scale = power_of_two(n);
    return recip(p * scale + (scale + 1.0f));
  }
}
""",
        ("each", "expm1_core", "recip"),
    ),
    "tanh": (
        """\
template <class V> INLINE V tanh_(V x) {  // 4 ulp: t / (t + 2) with t = exp(2x) - 1
  if constexpr (sizeof(typename lanes<V>::item) == 8) return each(x, [](double a) { return std::tanh(a); });
  else {
    V n;
    const V p = expm1_core(clamped(V(x + x), -19.0f, 19.0f), n);
    const V scale = power_of_two(n);
    const V t = p * scale + (scale - 1.0f);
    return t * recip(t + 2.0f);
  }
}
""",
        ("each", "expm1_core", "recip"),
    ),
    "expm1": (
        """\
template <class V> INLINE V expm1_(V x) {  // 2 ulp
  if constexpr (sizeof(typename lanes<V>::item) == 8) return each(x, [](double a) { return std::expm1(a); });
  else {
    V n;
    const V p = expm1_core(clamped(x, -20.0f, 80.0f), n);
    const V scale = power_of_two(n);
    return select(x > 80.0f, exp_(x) - 1.0f, p * scale + (scale - 1.0f));
  }
}
""",
        ("each", "exp"),
    ),
    "log": (
        """\
template <class V> INLINE V log_(V x) {  // 1 ulp; log(0) = -inf, negative gives NaN
  if constexpr (sizeof(typename lanes<V>::item) == 8) return each(x, [](double a) { return std::log(a); });
  else {
    typedef like<V, i32> I;
    const auto tiny = x < 1.17549435e-38f;
    const V y = select(tiny, x * 8388608.0f, x);
    const I raw = bits<I>(y);
    I e = (raw >> 23) - 126;
    V m = bits<V>((raw & 0x007fffff) | 0x3f000000);  // [0.5, 1)
    const auto small = m < 0.707106781186547524f;
    e = select(small, e - 1, e);
    m = select(small, m + m, m) - 1.0f;
    const V k = convert<V>(e) - select(tiny, splat<V>(23.0f), splat<V>(0.0f));
    V q = splat<V>(7.0376836292e-2f);
    q = q * m - 1.1514610310e-1f;
    q = q * m + 1.1676998740e-1f;
    q = q * m - 1.2420140846e-1f;
    q = q * m + 1.4249322787e-1f;
    q = q * m - 1.6668057665e-1f;
    q = q * m + 2.0000714765e-1f;
    q = q * m - 2.4999993993e-1f;
    q = q * m + 3.3333331174e-1f;
    const V z = m * m;
    V r = q * m * z + k * -2.12194440e-4f;
    r = r - 0.5f * z;
    r = (m + r) + k * 0.693359375f;
    const V inf = splat<V>(__builtin_inff());
    r = select(x == inf, inf, r);
    r = select(x == 0.0f, -inf, r);
    return select((x < 0.0f) | (x != x), splat<V>(__builtin_nanf("")), r);
  }
}
""",
        ("each",),
    ),
    "erf": (
        """\
template <class V> INLINE V erf_(V x) {  // 1 ulp
  if constexpr (sizeof(typename lanes<V>::item) == 8) return each(x, [](double a) { return std::erf(a); });
  else {
    typedef like<V, i32> I;
    const I sign = bits<I>(x) & splat<I>((i32)0x80000000);
    const V t = bits<V>(bits<I>(x) ^ sign);
    const V s = x * x;
    V a = t * -1.72853470e-5f + 3.83197126e-4f;
    a = a * s + (t * -3.88396438e-3f + 2.42546219e-2f);
    a = a * t - 1.06777877e-1f;
    a = a * t - 6.34846687e-1f;
    a = a * t - 1.28717512e-1f;
    a = a * t - t;
    V n;
    const V p = expm1_core(clamped(a, -80.0f, 80.0f), n);
    const V far = 1.0f - (p + 1.0f) * power_of_two(n);
    V b = splat<V>(-5.96761703e-4f);
    b = b * s + 4.99119423e-3f;
    b = b * s - 2.67681349e-2f;
    b = b * s + 1.12819925e-1f;
    b = b * s - 3.76125336e-1f;
    b = b * s + 1.28379166e-1f;
    b = b * x + x;
    return select(t > 0.927734375f, bits<V>(bits<I>(far) | sign), b);
  }
}
""",
        ("each", "expm1_core"),
    ),
    "sqrt": (
        """\
template <class V> INLINE V sqrt_(V x) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64 && sizeof(typename lanes<V>::item) == 4) return bits<V>(_mm512_sqrt_ps(bits<__m512>(x)));
  if constexpr (sizeof(V) == 64 && sizeof(typename lanes<V>::item) == 8) return bits<V>(_mm512_sqrt_pd(bits<__m512d>(x)));
#endif
  return each(x, [](auto a) { return std::sqrt(a); });
}
""",
        ("each",),
    ),
    "rounding": (
        """\
template <class V> INLINE V floor_(V x) { return each(x, [](auto a) { return std::floor(a); }); }
template <class V> INLINE V ceil_(V x) { return each(x, [](auto a) { return std::ceil(a); }); }
template <class V> INLINE V round_(V x) { return each(x, [](auto a) { return std::nearbyint(a); }); }
template <class V> INLINE V trunc_(V x) { return each(x, [](auto a) { return std::trunc(a); }); }
""",
        ("each",),
    ),
    "abs": (
        """\
template <class V> INLINE V abs_(V x) { return select(x < V{}, -x, x); }
""",
        (),
    ),
}
