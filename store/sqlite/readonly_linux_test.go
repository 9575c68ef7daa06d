package sqlite_test

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/countersign/countersign/durable"
	"github.com/countersign/countersign/store"
	"github.com/countersign/countersign/store/sqlite"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A file that this process may not write to is refused by Open with a typed
// error, and can be opened for reading.
func TestFileWithoutWritePermission(t *testing.T) {
	path := made(t)
	require.NoError(t, os.Chmod(path, 0o444)) //nolint:gosec // that everybody may read it is the point
	asNobody(t, filepath.Dir(path))

	_, err := sqlite.Open(t.Context(), path, nil)
	var readOnly *store.ReadOnlyError
	require.ErrorAs(t, err, &readOnly)

	s, err := sqlite.OpenReadOnly(t.Context(), path, nil)
	require.NoError(t, err)
	img, err := durable.Recover(t.Context(), s, "a")
	require.NoError(t, err)
	assert.EqualValues(t, 1, img.Position)
	require.NoError(t, s.Close())
}

// asNobody lets this thread reach files as another user, if it is root, whom no
// permission stops. The folder must be that user's to make files in.
func asNobody(t *testing.T, dir string) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	const nobody = 65534
	require.NoError(t, os.Chmod(dir, 0o777))               //nolint:gosec // a temporary folder
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755)) //nolint:gosec // a temporary folder
	runtime.LockOSThread()
	require.NoError(t, syscall.Setfsuid(nobody))
	t.Cleanup(func() {
		_ = syscall.Setfsuid(0)
		runtime.UnlockOSThread()
	})
}
