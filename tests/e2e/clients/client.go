// Go's gomemcache against the server: client HOST PORT FILE first|after
package main

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

var checks int

func check(good bool, what string) {
	checks++
	if !good {
		log.Fatalf("%s is not as expected", what)
	}
}

func is(err error, wanted error, what string) {
	checks++
	if err != wanted {
		log.Fatalf("%s: %v, not %v", what, err, wanted)
	}
}

func item(key, value string, seconds int32) *memcache.Item {
	return &memcache.Item{Key: "go-" + key, Value: []byte(value), Expiration: seconds}
}

func holds(client *memcache.Client, key, value string) {
	got, err := client.Get("go-" + key)
	is(err, nil, key)
	check(string(got.Value) == value, key)
}

func missing(client *memcache.Client, key string) {
	_, err := client.Get("go-" + key)
	is(err, memcache.ErrCacheMiss, key)
}

func first(client *memcache.Client, large []byte) {
	is(client.Set(item("a", "one", 0)), nil, "set")
	holds(client, "a", "one")
	missing(client, "absent")
	is(client.Add(item("a", "no", 0)), memcache.ErrNotStored, "add")
	is(client.Add(item("b", "two", 0)), nil, "add")
	holds(client, "b", "two")
	keys := []string{}
	for i := 0; i < 200; i++ {
		key := fmt.Sprintf("m%d", i)
		is(client.Set(item(key, strings.Repeat("m", i), 0)), nil, key)
		keys = append(keys, "go-"+key)
	}
	many, err := client.GetMulti(append(keys, "go-none"))
	is(err, nil, "get of many")
	check(len(many) == 200, "the number of many")
	for i, key := range keys {
		check(len(many[key].Value) == i, key)
	}
	is(client.Set(item("n", "5", 0)), nil, "set")
	n, err := client.Increment("go-n", 7)
	check(err == nil && n == 12, "incr")
	n, err = client.Decrement("go-n", 20)
	check(err == nil && n == 0, "decr")
	is(client.Set(item("cas", "old", 0)), nil, "set")
	old, err := client.Get("go-cas")
	is(err, nil, "gets")
	late, err := client.Get("go-cas")
	is(err, nil, "gets")
	old.Value = []byte("new")
	is(client.CompareAndSwap(old), nil, "cas")
	is(client.CompareAndSwap(late), memcache.ErrCASConflict, "late cas")
	holds(client, "cas", "new")
	is(client.Delete("go-b"), nil, "delete")
	is(client.Delete("go-b"), memcache.ErrCacheMiss, "delete")
	is(client.Set(&memcache.Item{Key: "go-large", Value: large}), nil, "set of the large one")
	is(client.Set(item("empty", "", 0)), nil, "set of nothing")
	holds(client, "empty", "")
	is(client.Set(item("short", "s", 50)), nil, "set")
	is(client.Set(item("touched", "t", 500)), nil, "set")
	holds(client, "short", "s")
}

func main() {
	large, err := os.ReadFile(os.Args[3])
	is(err, nil, "the file")
	client := memcache.New(os.Args[1] + ":" + os.Args[2])
	client.Timeout = time.Minute
	if os.Args[4] == "first" {
		first(client, large)
	} else {
		missing(client, "short")
		holds(client, "touched", "t")
	}
	got, err := client.Get("go-large")
	is(err, nil, "the large one")
	check(bytes.Equal(got.Value, large), "the large one")
	fmt.Printf("go: %d checks\n", checks)
}
