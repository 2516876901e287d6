/* Keeps the library non-empty. */
extern int gb_testlib_empty;
int gb_testlib_empty;
