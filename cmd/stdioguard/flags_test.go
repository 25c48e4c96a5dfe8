package main

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stdioguard/stdioguard"
)

func TestParse(t *testing.T) {
	defaults := new(config)
	require.NoError(t, defaults.parse(defaults.flags(), []string{"--", "x"}, func(string) string { return "" }))
	assert.Equal(t, 8<<20, defaults.limits.Line)
	new(config).flags().VisitAll(func(f *flag.Flag) {
		assert.NoError(t, f.Value.Set(f.DefValue), "the default of -%s is what one may write", f.Name)
	})
	for _, tt := range []struct {
		flag, env string
		value     func(*config) any
		want      any // a string: of the error
	}{
		{"-line 4096", "", line, 4096},
		{"-line 4096B", "", line, 4096},
		{"-line 64k", "", line, 64 << 10},
		{"-line 64K", "", line, 64 << 10},
		{"-line 64KiB", "", line, 64 << 10},
		{"-line 64kB", "", line, 64000},
		{"-line 16MiB", "", line, 16 << 20},
		{"-line 16mib", "", line, 16 << 20},
		{"-line 1MB", "", line, 1000000},
		{"-line 1g", "", line, 1 << 30},
		{"", "LINE=16 MiB", line, 16 << 20},
		{"-line 2k", "LINE=1k", line, 2 << 10},
		{"", "LINE=", line, 8 << 20},
		{"-line 0", "", line, "flag -line"},
		{"-line -1", "", line, "flag -line"},
		{"-line=", "", line, "flag -line"},
		{"-line MiB", "", line, "flag -line"},
		{"-line 1.5MiB", "", line, "flag -line"},
		{"-line 1Mi", "", line, "flag -line"},
		{"-line 1kk", "", line, "flag -line"},
		{"-line 0x10", "", line, "flag -line"},
		{"-line 99999999999999999999", "", line, "flag -line"},
		{"-line 9999999999G", "", line, "flag -line"},
		{"", "LINE=big", line, "STDIOGUARD_LINE"},
		{"-held 1k", "", func(c *config) any { return c.limits.Held }, 1024},
		{"-held 0", "", nil, "flag -held"},
		{"-depth 10000", "", func(c *config) any { return c.limits.Depth }, 10000},
		{"-depth 10001", "", nil, "flag -depth"},
		{"-depth 0", "", nil, "flag -depth"},
		{"-depth -1", "", nil, "flag -depth"},
		{"-answer-limit -1", "", func(c *config) any { return c.limits.Answers }, -1},
		{"", "ANSWER_LIMIT=3", func(c *config) any { return c.limits.Answers }, 3},
		{"-answer-limit 0", "", nil, "flag -answer-limit"},
		{"-answer-limit -2", "", nil, "flag -answer-limit"},
		{"-pending -1", "", func(c *config) any { return c.limits.Pending }, -1},
		{"-pending some", "", nil, "flag -pending"},
		{"-answers none", "ANSWERS=omit", func(c *config) any { return int(c.answers) }, 2},
		{"", "ANSWERS=omit", func(c *config) any { return int(c.answers) }, 1},
		{"-answers Null", "", nil, "flag -answers"},
		{"-recover-ids", "", func(c *config) any { return c.recoverIDs }, true},
		{"-recover-ids=false", "RECOVER_IDS=1", func(c *config) any { return c.recoverIDs }, false},
		{"", "ANY_JSON=true", func(c *config) any { return c.anyJSON }, true},
		{"", "ANY_JSON=yes", nil, "STDIOGUARD_ANY_JSON"},
		{"-any-json=yes", "", nil, "-any-json"},
		{"-drain 0", "", func(c *config) any { return c.drain }, time.Duration(0)},
		{"-drain 1m30s", "", func(c *config) any { return c.drain }, 90 * time.Second},
		{"-drain 30", "", nil, "flag -drain"},
		{"-drain -1s", "", nil, "flag -drain"},
		{"-grace 100ms", "", func(c *config) any { return c.grace }, 100 * time.Millisecond},
		{"", "GRACE=soon", nil, "STDIOGUARD_GRACE"},
		{"-log off", "LOG=debug", func(c *config) any { return c.level }, levelOff},
		{"", "LOG=all", nil, "STDIOGUARD_LOG"},
	} {
		t.Run(tt.flag+" "+tt.env, func(t *testing.T) {
			args := []string{"--", "x", "-line", "1"}
			if tt.flag != "" {
				args = append(strings.Split(tt.flag, " "), args...)
			}
			c := new(config)
			err := c.parse(c.flags(), args, func(name string) string {
				if value, ok := strings.CutPrefix("STDIOGUARD_"+tt.env, name+"="); ok {
					return value
				}
				return ""
			})
			if named, ok := tt.want.(string); ok {
				require.ErrorContains(t, err, named)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.want, tt.value(c))
			assert.Equal(t, []string{"x", "-line", "1"}, c.command)
		})
	}
}

func line(c *config) any { return c.limits.Line }

// What parse lets through must not make New panic.
func TestNoLimitPanics(t *testing.T) {
	c := new(config)
	flags := c.flags()
	for _, values := range [][]string{{"1", "1", "-1", "-1", "1", "0"}, {"1023m", "10000", "1", "1", "1023m", "1h"}} {
		for i, name := range []string{"line", "depth", "answer-limit", "pending", "held", "drain"} {
			require.NoError(t, flags.Set(name, values[i]))
		}
		assert.NotPanics(t, func() { stdioguard.New(strings.NewReader(""), nil, c.options()...) })
	}
}
