/*
 * Deadlines: a wheel of lists, so that arming, moving and dropping one of 100,000 costs the same.
 *
 * A deadline fires at the first tick at or after its time; a tick is GB_WHEEL_TICK_MS. Deadlines
 * further away than the wheel goes round are passed over until their round comes. Times are those
 * of the loop's clock. The wheel knows no timer: its owner asks gb_wheel_armed and turns it.
 *
 * Threads: the owner's.
 */
#ifndef GB_SERVER_WHEEL_H
#define GB_SERVER_WHEEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GB_WHEEL_TICK_MS 16
#define GB_WHEEL_SLOTS   1024u

/* Embedded in what has a deadline; zero: not armed. */
struct gb_deadline {
    struct gb_deadline *next;
    struct gb_deadline *prev;
    int64_t at_ms;
    /* Not armed any more when it is called; may arm itself again, arm and drop others. */
    void (*fire)(struct gb_deadline *deadline);
};

struct gb_wheel {
    struct gb_deadline slots[GB_WHEEL_SLOTS]; /* heads of circular lists */
    int64_t turned_ms;                        /* all up to here have fired */
    size_t armed;
};

void gb_wheel_init(struct gb_wheel *wheel, int64_t now_ms);

/* Arms, or moves, a deadline whose `fire` is set. */
void gb_wheel_arm(struct gb_wheel *wheel, struct gb_deadline *deadline, int64_t at_ms);
void gb_wheel_drop(struct gb_wheel *wheel, struct gb_deadline *deadline);
bool gb_wheel_is_armed(const struct gb_deadline *deadline);

/* When the next turn may have something to do: at or before the soonest deadline, and not later
 * than `within_ms` from the last turn. */
int64_t gb_wheel_soonest_ms(const struct gb_wheel *wheel, int64_t within_ms);

/* Fires what is due. Returns how many. */
size_t gb_wheel_turn(struct gb_wheel *wheel, int64_t now_ms);

#endif
