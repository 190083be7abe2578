// SPDX-License-Identifier: MIT
// Symbols that a compiler with glibc 2.36 and libstdc++ 12 asks for, and glibc 2.34 with libstdc++ 11 (RHEL 9,
// Ubuntu 22.04) does not have: three functions. Linked into the Python module and into the program that comes with it,
// which then work from glibc 2.34 on; make_wheel.sh checks that.
#include <features.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>

#if defined(__GLIBC__) && defined(__GLIBCXX__) && _GLIBCXX_RELEASE >= 12

// hypot has a new version since 2.35, which does not set errno. The oldest one does the same to numbers.
#if defined(__x86_64__)
__asm__(".symver hypot_of_any_glibc, hypot@GLIBC_2.2.5");
#define EBB_OLDER_HYPOT
#elif defined(__aarch64__)
__asm__(".symver hypot_of_any_glibc, hypot@GLIBC_2.17");
#define EBB_OLDER_HYPOT
#endif
#ifdef EBB_OLDER_HYPOT
extern "C" double hypot_of_any_glibc(double, double);
extern "C" double hypot(double x, double y) { return hypot_of_any_glibc(x, y); }
__asm__(".hidden hypot");  // of these files alone: were it shown, it would be taken for the one it calls
#endif

// As libstdc++ 12 has it; the new version of the symbol says only that cancelling a thread may throw here.
void std::condition_variable::wait(std::unique_lock<std::mutex>& lock) {
  pthread_cond_wait(native_handle(), lock.mutex()->native_handle());
}
__asm__(".hidden _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE");

// An index out of range in a reader of files (_GLIBCXX_ASSERTIONS).
namespace std {
[[noreturn]] void __glibcxx_assert_fail(const char* file, int line, const char* function,
                                        const char* condition) noexcept {
  std::fprintf(stderr, "%s:%d: %s: Assertion '%s' failed.\n", file, line, function, condition);
  std::abort();
}
}  // namespace std
__asm__(".hidden _ZSt21__glibcxx_assert_failPKciS0_S0_");

#endif
