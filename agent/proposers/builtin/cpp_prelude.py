"""The C++ prelude: short vectors over GCC's vector extensions, emitted only as far as a kernel uses it.

Vectors are explicit (``vec<float, 16>``), so what runs does not hang on an auto-vectoriser's mood; where the instruction
set is narrower the same source compiles to narrower vectors. Every function exists for vectors and for scalars.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agent.proposers.builtin.cpp_math import MATH


@dataclass(frozen=True)
class Fragment:
    """A piece of C++ and the names of the fragments it calls."""

    text: str
    needs: tuple[str, ...] = ()


# Reassociation would undo the two-step range reductions of the math functions; sums are split by hand instead.
HEAD = """\
#pragma GCC optimize("no-associative-math")
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <omp.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef int32_t i32;
typedef int64_t i64;
struct bf16 { uint16_t bits; };
struct f16 { uint16_t bits; };

// One vector register: 64 bytes with AVX-512, 32 with AVX, 16 otherwise.
#if defined(__AVX512F__)
constexpr int BYTES = 64;
#elif defined(__AVX__)
constexpr int BYTES = 32;
#else
constexpr int BYTES = 16;
#endif
#define INLINE static inline __attribute__((always_inline))

template <class T, int W> struct vector_of { typedef T type __attribute__((vector_size(sizeof(T) * W))); };
template <class T, int W> using vec = typename vector_of<T, W>::type;
template <class V, class = void> struct lanes {  // a scalar is one lane
  typedef V item;
  static constexpr int count = 1;
  template <class T> using of = T;
};
template <class V> struct lanes<V, decltype(void(V{}[0]))> {
  typedef std::remove_cv_t<std::remove_reference_t<decltype(V{}[0])>> item;
  static constexpr int count = sizeof(V) / sizeof(item);
  template <class T> using of = vec<T, count>;
};
template <class V, class T> using like = typename lanes<V>::template of<T>;
template <class V> constexpr bool is_vector = (lanes<V>::count > 1);

template <class To, class From> INLINE To convert(From x) {  // value conversion, lane by lane
  if constexpr (std::is_same_v<To, From>) return x;
  else if constexpr (is_vector<To>) return __builtin_convertvector(x, To);
  else return (To)x;
}
template <class To, class From> INLINE To bits(From x) { return __builtin_bit_cast(To, x); }
template <class V, class T> INLINE V splat(T x) {
  if constexpr (is_vector<V>) return V{} + (typename lanes<V>::item)x;
  else return (V)x;
}
template <class V, class M> INLINE V select(M mask, V a, V b) {  // masks: bool, or lanes of 0 and -1
  if constexpr (!is_vector<V>) return mask ? a : b;
  else if constexpr (sizeof(typename lanes<M>::item) == sizeof(typename lanes<V>::item)) return mask ? a : b;
  else if constexpr (sizeof(typename lanes<V>::item) == 8) return __builtin_convertvector(mask, like<V, i64>) ? a : b;
  else return __builtin_convertvector(mask, like<V, i32>) ? a : b;
}
template <class M> INLINE auto as_mask(M m) {
  if constexpr (is_vector<M>) return convert<like<M, i32>>(m);
  else return (bool)m;
}
"""

FRAGMENTS: dict[str, Fragment] = {
    "iota": Fragment("""\
template <class V> INLINE V iota() {
  V v = {};
  for (int l = 0; l < lanes<V>::count; ++l) v[l] = l;
  return v;
}
"""),
    "widen": Fragment("""\
template <class T> INLINE auto widened(T m) { return m; }
INLINE float widened(bf16 m) { return bits<float>((uint32_t)m.bits << 16); }
INLINE float widened(f16 m) { _Float16 h; __builtin_memcpy(&h, &m, 2); return (float)h; }
"""),
    "load": Fragment(
        """\
template <class V, class T> INLINE V widen(vec<T, lanes<V>::count> m) { return convert<V>(m); }
template <class V, class T> INLINE V load(const T* p) {
  constexpr int n = lanes<V>::count;
  if constexpr (std::is_same_v<T, bf16>) {
    vec<uint16_t, n> m;
    __builtin_memcpy(&m, p, sizeof m);
    return convert<V>((vec<float, n>)(__builtin_convertvector(m, vec<uint32_t, n>) << 16));
  } else if constexpr (std::is_same_v<T, f16>) {
    vec<float, n> v;
#if defined(__AVX512F__)
    if constexpr (n == 16) v = (vec<float, n>)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p)); else
#endif
    for (int l = 0; l < n; ++l) v[l] = widened(p[l]);
    return convert<V>(v);
  } else if constexpr (std::is_same_v<T, bool>) {
    vec<uint8_t, n> m;
    __builtin_memcpy(&m, p, sizeof m);
    return -convert<V>(m);
  } else {
    vec<T, n> m;
    __builtin_memcpy(&m, p, sizeof m);
    return convert<V>(m);
  }
}
""",
        ("widen",),
    ),
    "load_n": Fragment(
        """\
template <class V, class T> INLINE V load_n(const T* p, int n) {  // the first n lanes; the others read as zero
  constexpr int w = lanes<V>::count;
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4 && w == 16)
    return convert<V>(bits<vec<T, w>>(_mm512_maskz_loadu_epi32((__mmask16)((1u << n) - 1), p)));
  else if constexpr (sizeof(T) == 8 && w == 8)
    return convert<V>(bits<vec<T, w>>(_mm512_maskz_loadu_epi64((__mmask8)((1u << n) - 1), p)));
  else
#endif
  {
    T part[w] = {};
    for (int l = 0; l < n; ++l) part[l] = p[l];
    return load<V>(part);
  }
}
""",
        ("load",),
    ),
    "gather": Fragment(
        """\
template <class V, class T, class I> INLINE V gather(const T* p, I at) {  // p[at], lane by lane
  constexpr int w = lanes<V>::count;
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<T, float> && w == 8 && sizeof(at[0]) == 8)
    return convert<V>(bits<vec<T, w>>(_mm512_i64gather_ps(bits<__m512i>(at), p, 4)));
  else if constexpr (std::is_same_v<T, float> && w == 16 && sizeof(at[0]) == 4)
    return convert<V>(bits<vec<T, w>>(_mm512_i32gather_ps(bits<__m512i>(at), p, 4)));
  else if constexpr (sizeof(T) == 8 && w == 8 && sizeof(at[0]) == 8)
    return convert<V>(bits<vec<T, w>>(_mm512_i64gather_epi64(bits<__m512i>(at), p, 8)));
  else
#endif
  {
    T part[w];
    for (int l = 0; l < w; ++l) part[l] = p[at[l]];
    return load<V>(part);
  }
}
template <class V, class T, class I> INLINE V gather_n(const T* p, I at, int n) {
  T part[lanes<V>::count] = {};
  for (int l = 0; l < n; ++l) part[l] = p[at[l]];
  return load<V>(part);
}
""",
        ("load",),
    ),
    "narrow": Fragment("""\
template <class T, class V> INLINE auto narrowed(V v) {  // to memory's type; half floats round to nearest even
  typedef lanes<V> L;
  if constexpr (std::is_same_v<T, bf16>) {
    const auto x = convert<like<V, float>>(v);
    auto b = bits<like<V, uint32_t>>(x);
    const auto rounded = (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
    return convert<like<V, uint16_t>>(select(x != x, splat<like<V, uint32_t>>(0x7fc0u), rounded));
  } else if constexpr (std::is_same_v<T, f16>) {
    const auto x = convert<like<V, float>>(v);
#if defined(__AVX512F__)
    if constexpr (L::count == 16)
      return bits<vec<uint16_t, 16>>(_mm512_cvtps_ph(bits<__m512>(x), _MM_FROUND_TO_NEAREST_INT)); else
#endif
    if constexpr (is_vector<V>) {
      like<V, uint16_t> r;
      for (int l = 0; l < L::count; ++l) r[l] = bits<uint16_t>((_Float16)x[l]);
      return r;
    } else return bits<uint16_t>((_Float16)x);
  } else if constexpr (std::is_same_v<T, bool>) {
    if constexpr (is_vector<V>) return convert<like<V, uint8_t>>(-v);
    else return (uint8_t)(bool)v;
  } else return convert<like<V, T>>(v);
}
"""),
    "store": Fragment(
        """\
template <class T, class V> INLINE void store(T* p, V v) {
  const auto m = narrowed<T>(v);
  __builtin_memcpy(p, &m, sizeof m);
}
""",
        ("narrow",),
    ),
    "store_n": Fragment(
        """\
template <class T, class V> INLINE void store_n(T* p, V v, int n) {  // the first n lanes
  const auto m = narrowed<T>(v);
#if defined(__AVX512F__)
  if constexpr (sizeof(m) == 64 && sizeof(T) == 4)
    return _mm512_mask_storeu_epi32(p, (__mmask16)((1u << n) - 1), bits<__m512i>(m));
#endif
  for (int l = 0; l < n; ++l) { const auto x = m[l]; __builtin_memcpy(p + l, &x, sizeof x); }
}
""",
        ("narrow",),
    ),
    "stream": Fragment(
        """\
template <class T, class V> INLINE void stream(T* p, V v) {  // past the caches, where the address allows it
  const auto m = narrowed<T>(v);
#if defined(__AVX512F__)
  if constexpr (sizeof(m) == 64)
    if (((uintptr_t)p & 63) == 0) return _mm512_stream_si512((__m512i*)p, bits<__m512i>(m));
#endif
#if defined(__AVX__)
  if constexpr (sizeof(m) == 32)
    if (((uintptr_t)p & 31) == 0) return _mm256_stream_si256((__m256i*)p, bits<__m256i>(m));
#endif
  __builtin_memcpy(p, &m, sizeof m);
}
""",
        ("narrow",),
    ),
    "fence": Fragment("""\
INLINE void fence() {  // streamed stores become visible to the other threads
#if defined(__x86_64__)
  _mm_sfence();
#endif
}
"""),
    "prefetch": Fragment("""\
INLINE void prefetch(const void* p) { __builtin_prefetch(p, 0, 3); }
INLINE void prefetch_far(const void* p) { __builtin_prefetch(p, 0, 2); }  // second-level cache
"""),
    "minmax": Fragment("""\
// As PyTorch: NaN wins. The processor's max and min return their second operand where either is NaN.
template <class V> INLINE V maximum(V a, V b) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<V, vec<float, 16>>) {
    const __m512 x = bits<__m512>(a), y = bits<__m512>(b);
    return bits<V>(_mm512_mask_mov_ps(_mm512_max_ps(y, x), _mm512_cmp_ps_mask(y, y, _CMP_UNORD_Q), y));
  }
#endif
  return select((a > b) | (a != a), a, b);
}
template <class V> INLINE V minimum(V a, V b) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<V, vec<float, 16>>) {
    const __m512 x = bits<__m512>(a), y = bits<__m512>(b);
    return bits<V>(_mm512_mask_mov_ps(_mm512_min_ps(y, x), _mm512_cmp_ps_mask(y, y, _CMP_UNORD_Q), y));
  }
#endif
  return select((a < b) | (a != a), a, b);
}
"""),
    "fold": Fragment("""\
template <class V, class F> INLINE auto fold(V v, F f) {  // all lanes into one, pairwise
  if constexpr (!is_vector<V>) return v;
  else {
    typedef typename lanes<V>::item T;
    constexpr int half = lanes<V>::count / 2;
    if constexpr (half == 1) return f(v[0], v[1]);
    else {
      vec<T, half> low, high;
      __builtin_memcpy(&low, &v, sizeof low);
      __builtin_memcpy(&high, (const char*)&v + sizeof low, sizeof high);
      return fold(f(low, high), f);
    }
  }
}
"""),
    "keep": Fragment(
        """\
template <class V> INLINE V keep(V v, V other, int n) {  // the first n lanes of v, then other
  return select(iota<like<V, i32>>() < n, v, other);
}
""",
        ("iota",),
    ),
    "each": Fragment("""\
template <class V, class F> INLINE V each(V x, F f) {
  if constexpr (!is_vector<V>) return f(x);
  else {
    V r;
    for (int l = 0; l < lanes<V>::count; ++l) r[l] = f(x[l]);
    return r;
  }
}
template <class V, class F> INLINE V each(V x, V y, F f) {
  if constexpr (!is_vector<V>) return f(x, y);
  else {
    V r;
    for (int l = 0; l < lanes<V>::count; ++l) r[l] = f(x[l], y[l]);
    return r;
  }
}
"""),
    "scan": Fragment("""\
template <int S, class V> INLINE V shifted(V v, V low) {  // lanes move up by S, low's top lanes come in
  constexpr int n = lanes<V>::count;
  typedef typename lanes<V>::item T;
  like<V, std::conditional_t<sizeof(T) == 8, i64, i32>> at;
  for (int l = 0; l < n; ++l) at[l] = l < S ? n + l : l - S;
  return __builtin_shuffle(v, low, at);
}
template <class V, class F> INLINE V prefix(V v, V identity, F f) {  // inclusive running fold inside a vector
  constexpr int n = lanes<V>::count;
  v = f(shifted<1>(v, identity), v);
  if constexpr (n > 2) v = f(shifted<2>(v, identity), v);
  if constexpr (n > 4) v = f(shifted<4>(v, identity), v);
  if constexpr (n > 8) v = f(shifted<8>(v, identity), v);
  return v;
}
template <class V> INLINE V reversed(V v) {
  constexpr int n = lanes<V>::count;
  typedef typename lanes<V>::item T;
  like<V, std::conditional_t<sizeof(T) == 8, i64, i32>> at;
  for (int l = 0; l < n; ++l) at[l] = n - 1 - l;
  return __builtin_shuffle(v, at);
}
"""),
    "integer": Fragment("""\
// Python's integer division and modulus.
INLINE i64 floor_div(i64 a, i64 b) { const i64 q = a / b; return q - ((a % b != 0) & ((a < 0) != (b < 0))); }
INLINE i64 floor_mod(i64 a, i64 b) { const i64 r = a % b; return r + (((r != 0) & ((r < 0) != (b < 0))) ? b : 0); }
"""),
    "tiles": Fragment("""\
#if defined(__AMX_BF16__) && defined(__AVX512F__)
#include <sys/syscall.h>
#include <unistd.h>
static bool tiles_allowed() {  // Linux hands out tile state on request (ARCH_REQ_XCOMP_PERM, feature 18)
  static const bool allowed = syscall(SYS_arch_prctl, 0x1023, 18) == 0;
  return allowed;
}
static void tiles_configure() {  // eight tiles of 16 rows by 64 bytes
  struct { uint8_t palette, start, unused[14]; uint16_t bytes[16]; uint8_t rows[16]; } shape = {};
  shape.palette = 1;
  for (int t = 0; t < 8; ++t) { shape.bytes[t] = 64; shape.rows[t] = 16; }
  _tile_loadconfig(&shape);
}
typedef vec<float, 16> tile_row;
// The leading bfloat16 of every lane goes to memory, what remains is returned; three times empties a float32 exactly.
INLINE tile_row split_off(uint16_t* p, tile_row x) {
  const auto top = bits<vec<uint32_t, 16>>(x);
  const auto half = __builtin_convertvector(top >> 16, vec<uint16_t, 16>);
  __builtin_memcpy(p, &half, sizeof half);
  return x - bits<tile_row>(top & 0xffff0000u);
}
INLINE void split_off_pair(uint16_t* p, tile_row& even, tile_row& odd) {  // the same for two k, interleaved
  const auto a = bits<vec<uint32_t, 16>>(even), b = bits<vec<uint32_t, 16>>(odd) & 0xffff0000u;
  const auto both = (a >> 16) | b;
  __builtin_memcpy(p, &both, sizeof both);
  even = even - bits<tile_row>(a & 0xffff0000u);
  odd = odd - bits<tile_row>(b);
}
#endif
"""),
    **{name: Fragment(text, needs) for name, (text, needs) in MATH.items()},
}


def prelude(used: Iterable[str]) -> str:
    """The head and every fragment reachable from ``used``, each after what it needs, in an order that depends on
    nothing but the set. Raises ``KeyError`` for an unknown fragment."""
    done: list[str] = []

    def visit(name: str) -> None:
        if name not in done:
            for need in FRAGMENTS[name].needs:
                visit(need)
            done.append(name)

    wanted = set(used)
    for name in FRAGMENTS:
        if name in wanted:
            visit(name)
    unknown = wanted - set(FRAGMENTS)
    if unknown:
        raise KeyError(", ".join(sorted(unknown)))
    return HEAD + "\n" + "\n".join(FRAGMENTS[n].text for n in done)
