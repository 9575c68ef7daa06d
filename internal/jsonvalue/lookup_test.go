package jsonvalue_test

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/countersign/countersign/internal/jsonvalue"
)

func TestLookupFindsTheRawText(t *testing.T) {
	doc := []byte(` { "a" : { "b" : [ 10 , {"c":"x, y"} , [] ] } , "\u0061b" : 1.50 , "" : null, "a/b~" : true, "0":{"1":2} } `)
	for _, c := range []struct {
		path []string
		want string
	}{
		{[]string{"a", "b", "0"}, `10`},
		{[]string{"a", "b", "1"}, `{"c":"x, y"}`},
		{[]string{"a", "b", "1", "c"}, `"x, y"`},
		{[]string{"a", "b", "2"}, `[]`},
		{[]string{"ab"}, `1.50`},
		{[]string{""}, `null`},
		{[]string{"a/b~"}, `true`},
		{[]string{"0", "1"}, `2`},
	} {
		raw, ok := jsonvalue.Lookup(doc, c.path...)
		assert.True(t, ok, c.path)
		assert.Equal(t, c.want, string(raw), c.path)
	}
	for _, path := range [][]string{{"b"}, {"a", "b", "3"}, {"a", "b", "00"}, {"a", "b", "-"}, {"a", "b", "-1"}, {"a", "b", "+1"}, {"a", "b", "99999999999999999999"},
		{"ab", "0"}, {"a", "b", "2", "0"}, {"", "x"}, {"A"}, {"a", "b", "0x0"}} {
		raw, ok := jsonvalue.Lookup(doc, path...)
		assert.False(t, ok, path)
		assert.Nil(t, raw, path)
	}
	raw, ok := jsonvalue.Lookup([]byte(" [1] "))
	assert.True(t, ok)
	assert.Equal(t, "[1]", string(raw))
}

func TestLookupTakesTheLastOfRepeatedMembers(t *testing.T) {
	doc := []byte(`{"a":{"b":1},"\u0061":{"b":2},"a":{"b":3,"b":4},"c":5}`)
	raw, _ := jsonvalue.Lookup(doc, "a", "b")
	assert.Equal(t, "4", string(raw))
	assert.Equal(t, [][]byte{[]byte("4"), []byte(`{"b":3,"b":4}`)}, jsonvalue.LookupMany(doc, [][]string{{"a", "b"}, {"a"}}))
	_, ok := jsonvalue.Lookup([]byte(`{"a":{"b":1},"a":2}`), "a", "b")
	assert.False(t, ok)
}

func TestLookupTellsSurrogatesFromTheReplacementCharacter(t *testing.T) {
	doc := []byte(`{"\ud800":1,"\ufffd":2,"\ud83d\ude00":3,"\udc00\ud800":4}`)
	for name, want := range map[string]string{"\uFFFD": "2", "😀": "3", "\xed\xa0\x80": "1", "\xed\xb0\x80\xed\xa0\x80": "4"} {
		raw, ok := jsonvalue.Lookup(doc, name)
		assert.True(t, ok, "%q", name)
		assert.Equal(t, want, string(raw), "%q", name)
	}
	_, ok := jsonvalue.Lookup([]byte(`{"\ud800":1}`), "\uFFFD")
	assert.False(t, ok)
}

func TestLookupDoesNotAllocate(t *testing.T) {
	doc := []byte(`{"skipped":{"x":[1,"]}",{"y":"\u0041"}]},"\u0061":[1,2,3],"z":0}`)
	assert.Zero(t, testing.AllocsPerRun(100, func() { jsonvalue.Lookup(doc, "a", "2") }))
}

func TestLookupManyIsManyLookups(t *testing.T) {
	for _, doc := range []string{`{"a":{"b":1},"c":[{"d":2}],"e":null}`, `[{"a":1}]`, `1`, `{}`, ``} {
		paths := [][]string{{"a"}, {"a", "b"}, {"c", "0", "d"}, {"e"}, {"x"}, {}, {"0", "a"}, {"a"}}
		many := jsonvalue.LookupMany([]byte(doc), paths)
		for i, path := range paths {
			one, _ := jsonvalue.Lookup([]byte(doc), path...)
			assert.Equal(t, one, many[i], "%s %q", doc, path)
		}
	}
}

func TestLookupFindsWhatDecodingFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := draw(t)
		var at any
		require.NoError(t, json.Unmarshal(doc, &at))
		var path []string
		for {
			raw, ok := jsonvalue.Lookup(doc, path...)
			require.True(t, ok, "%s %q", doc, path)
			var got any
			require.NoError(t, json.Unmarshal(raw, &got))
			require.Equal(t, at, got)
			switch v := at.(type) {
			case map[string]any:
				if len(v) == 0 {
					return
				}
				name := rapid.SampledFrom(sortedKeys(v)).Draw(t, "name")
				path, at = append(path, name), v[name]
			case []any:
				if len(v) == 0 {
					return
				}
				i := rapid.IntRange(0, len(v)-1).Draw(t, "index")
				path, at = append(path, strconv.Itoa(i)), v[i]
			default:
				return
			}
		}
	})
}

func TestTreeHasTheStructureAndShadowsRepeatedNames(t *testing.T) {
	var tree jsonvalue.Tree
	require.NoError(t, tree.Parse([]byte(`{"a":[1,[2]],"b":{},"\u0061":3}`), jsonvalue.Limits{}))
	root := tree.Nodes[0]
	assert.Equal(t, int32(2), root.Size)
	assert.Equal(t, int32(len(tree.Nodes)), root.Next)
	assert.True(t, tree.Nodes[1].Shadowed)
	node, ok := tree.Member(0, "a")
	require.True(t, ok)
	assert.Equal(t, "3", string(tree.Raw(node)))
	assert.Equal(t, "a", string(tree.Name(node, nil)))
}

// A large object finds repeated names in a hash table.
func TestTreeShadowsRepeatedNamesOfLargeObjects(t *testing.T) {
	doc := []byte(`{`)
	for i := range 3000 {
		doc = append(doc, `"\u006b`+strconv.Itoa(i%1000)+`":`+strconv.Itoa(i)+`,`...)
	}
	doc = append(doc, `"k7":"last"}`...)
	var tree jsonvalue.Tree
	for range 2 { // the second time with the memory of the first
		require.NoError(t, tree.Parse(doc, jsonvalue.Limits{}))
		assert.Equal(t, int32(1000), tree.Nodes[0].Size)
		for i := range 1000 {
			node, ok := tree.Member(0, "k"+strconv.Itoa(i))
			require.True(t, ok)
			want := strconv.Itoa(2000 + i)
			if i == 7 {
				want = `"last"`
			}
			require.Equal(t, want, string(tree.Raw(node)))
		}
	}
}
