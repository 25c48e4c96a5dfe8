package stdioguard_test

import (
	"flag"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write what is compared with to testdata")

// TestAPI fails where an exported name goes, comes or changes. If that is meant:
//
//	go test -run TestAPI -update
func TestAPI(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("go doc is not to be had: ", err)
	}
	const golden = "testdata/api.txt"
	var got strings.Builder
	for _, dir := range []string{".", "./guardtest"} {
		got.WriteString(declarations(t, dir))
	}
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o666))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, strings.ReplaceAll(string(want), "\r\n", "\n"), got.String())
}

// declarations is what go doc says of a package without the prose, which may
// become better at any time.
func declarations(t *testing.T, dir string) string {
	doc, err := exec.Command("go", "doc", "-all", dir).Output()
	require.NoError(t, err, "go doc -all %s", dir)
	prose := regexp.MustCompile(`(?m)^    .*\n|\s*//.*$`)
	name, rest, ok := strings.Cut(string(doc), "\n")
	require.True(t, ok)
	// The package's own comment stands before the first heading, in capitals.
	rest = rest[regexp.MustCompile(`(?m)^[A-Z]+\n`).FindStringIndex(rest)[0]:]
	text := prose.ReplaceAllString(name+"\n"+rest, "")
	return regexp.MustCompile(`\n{2,}`).ReplaceAllString(text, "\n") + "\n"
}
