// Complex numbers of Thrust and libcu++: one class. Quotients and roots are scaled, so that neither overflows on the way;
// products are the four products. Thrust: "Complex Numbers"; DLMF 4.2, 4.21 and 4.35 for functions of a complex variable.
#pragma once

#include <cuda_runtime.h>

namespace replay_complex {

template <class T>
struct alignas(2 * sizeof(T)) complex {
  using value_type = T;

  complex() = default;
  complex(const T& real, const T& imag = T(0)) : re(real), im(imag) {}
  template <class U>
  complex(const complex<U>& z) : re(T(z.real())), im(T(z.imag())) {}

  T real() const { return re; }
  T imag() const { return im; }
  void real(T value) { re = value; }
  void imag(T value) { im = value; }
  complex& operator=(const T& value) { return *this = complex(value); }

  complex& operator+=(const complex& z) { return *this = *this + z; }
  complex& operator-=(const complex& z) { return *this = *this - z; }
  complex& operator*=(const complex& z) { return *this = *this * z; }
  complex& operator/=(const complex& z) { return *this = *this / z; }

  complex operator+() const { return *this; }
  complex operator-() const { return complex(-re, -im); }
  // Friends, so that numbers convert on either side.
  friend complex operator+(const complex& a, const complex& b) { return complex(a.re + b.re, a.im + b.im); }
  friend complex operator-(const complex& a, const complex& b) { return complex(a.re - b.re, a.im - b.im); }
  friend complex operator*(const complex& a, const complex& b) {
    return complex(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
  }
  friend complex operator*(const complex& a, const T& b) { return complex(a.re * b, a.im * b); }
  friend complex operator*(const T& a, const complex& b) { return complex(a * b.re, a * b.im); }
  friend complex operator/(const complex& a, const T& b) { return complex(a.re / b, a.im / b); }
  friend complex operator/(const complex& a, const complex& b) {
    const T scale = T(1) / (::fabs(b.re) + ::fabs(b.im));
    const complex c(a.re * scale, a.im * scale), d(b.re * scale, b.im * scale);
    const T inverse = T(1) / (d.re * d.re + d.im * d.im);
    return complex((c.re * d.re + c.im * d.im) * inverse, (c.im * d.re - c.re * d.im) * inverse);
  }
  friend bool operator==(const complex& a, const complex& b) { return a.re == b.re && a.im == b.im; }
  friend bool operator!=(const complex& a, const complex& b) { return !(a == b); }

 private:
  T re, im;
};

template <class T>
inline T real(const complex<T>& z) {
  return z.real();
}
template <class T>
inline T imag(const complex<T>& z) {
  return z.imag();
}
template <class T>
inline T abs(const complex<T>& z) {
  return ::hypot(z.real(), z.imag());
}
template <class T>
inline T arg(const complex<T>& z) {
  return ::atan2(z.imag(), z.real());
}
template <class T>
inline T norm(const complex<T>& z) {
  return z.real() * z.real() + z.imag() * z.imag();
}
template <class T>
inline complex<T> conj(const complex<T>& z) {
  return complex<T>(z.real(), -z.imag());
}
template <class T>
inline complex<T> polar(const T& length, const T& angle = T(0)) {
  return complex<T>(length * ::cos(angle), length * ::sin(angle));
}
template <class T>
inline complex<T> exp(const complex<T>& z) {
  return polar(T(::exp(z.real())), z.imag());
}
template <class T>
inline complex<T> log(const complex<T>& z) {
  return complex<T>(::log(abs(z)), arg(z));
}
template <class T>
inline complex<T> log10(const complex<T>& z) {
  return log(z) / T(2.302585092994045684);
}
template <class T>
inline complex<T> sqrt(const complex<T>& z) {
  const T length = abs(z);
  if (length == T(0)) return complex<T>(T(0), z.imag());
  const T root = ::sqrt((length + ::fabs(z.real())) * T(0.5));
  const T other = z.imag() / (T(2) * root);
  return z.real() >= T(0) ? complex<T>(root, other) : complex<T>(::fabs(other), ::copysign(root, z.imag()));
}
template <class T>
inline complex<T> pow(const complex<T>& z, const complex<T>& exponent) {
  return exp(log(z) * exponent);
}
template <class T>
inline complex<T> pow(const complex<T>& z, const T& exponent) {
  return exp(log(z) * exponent);
}
template <class T>
inline complex<T> sin(const complex<T>& z) {
  return complex<T>(::sin(z.real()) * ::cosh(z.imag()), ::cos(z.real()) * ::sinh(z.imag()));
}
template <class T>
inline complex<T> cos(const complex<T>& z) {
  return complex<T>(::cos(z.real()) * ::cosh(z.imag()), -(::sin(z.real()) * ::sinh(z.imag())));
}
template <class T>
inline complex<T> sinh(const complex<T>& z) {
  return complex<T>(::sinh(z.real()) * ::cos(z.imag()), ::cosh(z.real()) * ::sin(z.imag()));
}
template <class T>
inline complex<T> cosh(const complex<T>& z) {
  return complex<T>(::cosh(z.real()) * ::cos(z.imag()), ::sinh(z.real()) * ::sin(z.imag()));
}
template <class T>
inline complex<T> tan(const complex<T>& z) {
  return sin(z) / cos(z);
}
template <class T>
inline complex<T> tanh(const complex<T>& z) {
  return sinh(z) / cosh(z);
}

}  // namespace replay_complex
