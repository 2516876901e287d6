/* HTTP's dates: see http_date.h. */
#include "proto/http_date.h"

#include <errno.h>

#define DAY_S INT64_C(86400)

static const char day_names[] = "SunMonTueWedThuFriSat";
static const char month_names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
static const char *const long_day_names[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                             "Thursday", "Friday", "Saturday"};

struct date {
    int year; /* 0 to 9999 */
    int month;
    int day;
    int hour;
    int minute;
    int second;
};

/* The calendar of years that begin in March, in which the leap day is the last one: a day of the
 * year is then a straight function of the month. Eras are of 400 years, 146,097 days. */
static int64_t days_of(int year, int month, int day)
{
    int64_t y = year - (month <= 2);
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t of_era = y - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static void date_of_days(int64_t days, struct date *date)
{
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    int64_t of_era = days - era * 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * of_year + 2) / 153;
    date->day = (int)(of_year - (153 * month + 2) / 5 + 1);
    date->month = (int)(month < 10 ? month + 3 : month - 9);
    date->year = (int)(year + era * 400 + (date->month <= 2));
}

static int days_in_month(int year, int month)
{
    static const char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month - 1] + (month == 2 && leap ? 1 : 0);
}

/* Reads from the front of a text. Whatever does not fit sets `bad`, and from then on nothing is
 * read. */
struct cursor {
    struct gb_http_text rest;
    bool bad;
};

static void expect(struct cursor *cursor, const char *literal)
{
    size_t len = strlen(literal);
    if (cursor->bad || cursor->rest.len < len || memcmp(cursor->rest.at, literal, len) != 0) {
        cursor->bad = true;
        return;
    }
    cursor->rest.at += len;
    cursor->rest.len -= len;
}

static int digits(struct cursor *cursor, size_t count)
{
    int value = 0;
    if (cursor->bad || cursor->rest.len < count) {
        cursor->bad = true;
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        char c = cursor->rest.at[i];
        if (c < '0' || c > '9') {
            cursor->bad = true;
            return 0;
        }
        value = value * 10 + (c - '0');
    }
    cursor->rest.at += count;
    cursor->rest.len -= count;
    return value;
}

/* One of `names`, three letters each; its number from 0. */
static int name(struct cursor *cursor, const char *names)
{
    for (int i = 0; !cursor->bad && cursor->rest.len >= 3 && names[(ptrdiff_t)3 * i] != '\0'; i++) {
        if (memcmp(cursor->rest.at, names + (ptrdiff_t)3 * i, 3) == 0) {
            cursor->rest.at += 3;
            cursor->rest.len -= 3;
            return i;
        }
    }
    cursor->bad = true;
    return 0;
}

static void time_of_day(struct cursor *cursor, struct date *date)
{
    date->hour = digits(cursor, 2);
    expect(cursor, ":");
    date->minute = digits(cursor, 2);
    expect(cursor, ":");
    date->second = digits(cursor, 2);
}

/* "06 Nov 1994 08:49:37 GMT", behind "Sun, " */
static void imf_fixdate(struct cursor *cursor, struct date *date)
{
    date->day = digits(cursor, 2);
    expect(cursor, " ");
    date->month = name(cursor, month_names) + 1;
    expect(cursor, " ");
    date->year = digits(cursor, 4);
    expect(cursor, " ");
    time_of_day(cursor, date);
    expect(cursor, " GMT");
}

/* "06-Nov-94 08:49:37 GMT", behind "Sunday, " */
static void rfc850_date(struct cursor *cursor, int64_t now_s, struct date *date)
{
    date->day = digits(cursor, 2);
    expect(cursor, "-");
    date->month = name(cursor, month_names) + 1;
    expect(cursor, "-");
    int of_century = digits(cursor, 2);
    expect(cursor, " ");
    time_of_day(cursor, date);
    expect(cursor, " GMT");

    struct date now = {0};
    date_of_days(now_s / DAY_S, &now);
    date->year = now.year - now.year % 100 + of_century;
    if (date->year > now.year + 50) {
        date->year -= 100;
    }
}

/* "Nov  6 08:49:37 1994", behind "Sun " */
static void asctime_date(struct cursor *cursor, struct date *date)
{
    date->month = name(cursor, month_names) + 1;
    expect(cursor, " ");
    if (cursor->rest.len > 0 && cursor->rest.at[0] == ' ') {
        expect(cursor, " ");
        date->day = digits(cursor, 1);
    } else {
        date->day = digits(cursor, 2);
    }
    expect(cursor, " ");
    time_of_day(cursor, date);
    expect(cursor, " ");
    date->year = digits(cursor, 4);
}

static bool long_day_name(struct cursor *cursor)
{
    for (size_t i = 0; i < sizeof(long_day_names) / sizeof(long_day_names[0]); i++) {
        struct cursor copy = *cursor;
        expect(&copy, long_day_names[i]);
        expect(&copy, ", ");
        if (!copy.bad) {
            *cursor = copy;
            return true;
        }
    }
    return false;
}

int gb_http_date_parse(struct gb_http_text text, int64_t now_s, int64_t *out_s)
{
    struct cursor cursor = {.rest = text};
    struct date date = {0};
    if (long_day_name(&cursor)) {
        rfc850_date(&cursor, now_s, &date);
    } else {
        (void)name(&cursor, day_names);
        if (!cursor.bad && cursor.rest.len > 0 && cursor.rest.at[0] == ',') {
            expect(&cursor, ", ");
            imf_fixdate(&cursor, &date);
        } else {
            expect(&cursor, " ");
            asctime_date(&cursor, &date);
        }
    }
    if (cursor.bad || cursor.rest.len > 0 || date.year < 0 || date.day < 1 ||
        date.day > days_in_month(date.year, date.month) || date.hour > 23 || date.minute > 59 ||
        date.second > 60) {
        return -EINVAL;
    }
    *out_s = days_of(date.year, date.month, date.day) * DAY_S + date.hour * INT64_C(3600) +
             date.minute * INT64_C(60) + date.second;
    return 0;
}

static char *put_number(char *out, int value, int count)
{
    for (int i = count - 1; i >= 0; i--) {
        out[i] = (char)('0' + value % 10);
        value /= 10;
    }
    return out + count;
}

static char *put_text(char *out, const char *text, size_t len)
{
    memcpy(out, text, len);
    return out + len;
}

const char *gb_http_date_write(int64_t time_s, char out[GB_HTTP_DATE_LEN + 1])
{
    int64_t least = days_of(0, 1, 1) * DAY_S;
    int64_t most = days_of(9999, 12, 31) * DAY_S + DAY_S - 1;
    time_s = time_s < least ? least : time_s > most ? most : time_s;
    int64_t days = (time_s >= 0 ? time_s : time_s - DAY_S + 1) / DAY_S;
    int second = (int)(time_s - days * DAY_S);
    struct date date = {0};
    date_of_days(days, &date);

    /* 1970 began on a Thursday. */
    char *at = put_text(out, day_names + 3 * ((days % 7 + 11) % 7), 3);
    at = put_text(at, ", ", 2);
    at = put_number(at, date.day, 2);
    *at++ = ' ';
    at = put_text(at, month_names + (ptrdiff_t)3 * (date.month - 1), 3);
    *at++ = ' ';
    at = put_number(at, date.year, 4);
    *at++ = ' ';
    at = put_number(at, second / 3600, 2);
    *at++ = ':';
    at = put_number(at, second / 60 % 60, 2);
    *at++ = ':';
    at = put_number(at, second % 60, 2);
    at = put_text(at, " GMT", 4);
    *at = '\0';
    return out;
}
