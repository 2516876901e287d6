/* GB_ASSERT: programmer errors only; stays on in release builds. What comes from disk, network,
 * user or memory pressure returns an error instead. */
#ifndef GB_BASE_ASSERT_H
#define GB_BASE_ASSERT_H

_Noreturn void gb_assert_failed(const char *expression, const char *file, int line);

#define GB_ASSERT(expression)                                                                      \
    ((expression) ? (void)0 : gb_assert_failed(#expression, __FILE__, __LINE__))

#endif
