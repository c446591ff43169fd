// 16 bytes of T, which the device moves by one instruction.
#pragma once

template <typename T>
struct alignas(16) Packed {
    static constexpr int size = 16 / sizeof(T);

    T values[size];

    // address must be aligned to 16 bytes.
    static __device__ __forceinline__ Packed load(const T* address)
    {
        return *reinterpret_cast<const Packed*>(address);
    }

    __device__ __forceinline__ void store(T* address) const
    {
        *reinterpret_cast<Packed*>(address) = *this;
    }
};
