/* Options with every default filled in. */
#ifndef GB_ENGINE_CONFIG_H
#define GB_ENGINE_CONFIG_H

#include <goblin/options.h>

#include "engine/format.h"

/* Replaces the zeros of checked options by defaults, those that depend on each other included. */
void gb_config_resolve(struct goblin_options *options);

/* Takes what was fixed at creation from a drive's identity. GOBLIN_EOPTION and a text when the
 * options ask for something else. */
int gb_config_adopt(struct goblin_options *options, const struct gb_identity *identity,
                    struct goblin_error *error);

/* Segments a store of `size_bytes` has on each of `drives` drives. */
uint32_t gb_config_slots(uint64_t size_bytes, uint64_t segment_bytes, unsigned drives);

/* Puts "context: " in front of the text, or sets it. */
void gb_error_set(struct goblin_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void gb_error_wrap(struct goblin_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
