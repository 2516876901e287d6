/* GB_SANITIZED: whether the address or the thread sanitizer is at work. Under one a test takes
 * several times as long, so what repeats itself does so less often, and memory that is freed stays.
 * gcc and clang say it differently. */
#ifndef GB_TESTS_SANITIZED_H
#define GB_TESTS_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GB_SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define GB_SANITIZED true
#endif
#endif
#ifndef GB_SANITIZED
#define GB_SANITIZED false
#endif

#endif
