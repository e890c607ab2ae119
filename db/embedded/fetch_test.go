package embedded_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"waybill/db/embedded"
)

// A machine without PostgreSQL fetches one from the repository, once. The stub's programs run the ones that this machine
// does have.
func TestFetch(t *testing.T) {
	real := start(t, embedded.Config{Dir: preparedFolder(t)})
	stop(t, real)
	bare(t)
	jar := archive(t, embedded.BinDir(real))
	repository, paths := stubRepository(t, jar, hexSum(jar))

	dir := filepath.Join(folder(t), "data")
	server := start(t, embedded.Config{Dir: dir, Repository: repository.URL})
	query(t, server.URL(), "create table parcels (id int)")
	if bin := embedded.BinDir(server); !strings.HasPrefix(bin, filepath.Dir(server.DataDir())) {
		t.Errorf("it runs the programs in %s", bin)
	}
	stop(t, server)
	if asked := paths(); len(asked) != 2 || !strings.HasSuffix(asked[1], ".jar.sha256") {
		t.Errorf("it asked for %q, want the archive and its checksum", asked)
	}

	repository.Close()
	again := start(t, embedded.Config{Dir: dir, Repository: repository.URL})
	wantParcels(t, again.URL(), "0")
}

// Whoever is not root runs more of the library that fetches: it gets as far as trying to start a server.
func TestFetchAsUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("TestFetch is this test for a user")
	}
	nobody := credentialOf(t, "nobody")
	real := start(t, embedded.Config{Dir: preparedFolder(t)})
	stop(t, real)
	jar := archive(t, embedded.BinDir(real))
	repository, _ := stubRepository(t, jar, hexSum(jar))
	parent := folder(t)
	if err := os.Chown(parent, int(nobody.Uid), int(nobody.Gid)); err != nil {
		t.Fatal(err)
	}
	program := startProgram(t, filepath.Join(parent, "data"), nobody, repositoryEnv+"="+repository.URL, "PATH=/nowhere")
	if program.url == "" {
		t.Fatal(program.said)
	}
	query(t, program.url, "select 1")
}

func TestFetchFailures(t *testing.T) {
	real := start(t, embedded.Config{Dir: preparedFolder(t)})
	stop(t, real)
	bare(t)
	jar := archive(t, embedded.BinDir(real))
	dir := filepath.Join(folder(t), "data")
	for name, check := range map[string]struct {
		jar []byte
		sum string
	}{
		"another checksum": {jar, hexSum([]byte("x"))},
		"no archive":       {nil, ""},
		"a page instead":   {[]byte("<html>"), hexSum([]byte("<html>"))},
		"cut off":          {jar[:len(jar)/2], hexSum(jar[:len(jar)/2])},
	} {
		t.Run(name, func(t *testing.T) {
			repository, _ := stubRepository(t, check.jar, check.sum)
			_, err := tryStart(t, embedded.Config{Dir: dir, Repository: repository.URL})
			if !errors.Is(err, embedded.ErrNoBinaries) || !strings.Contains(err.Error(), repository.URL) || !strings.Contains(err.Error(), "WAYBILL_DATABASE_URL") {
				t.Fatalf("error %v, want ErrNoBinaries with the address and a way out", err)
			}
		})
	}
	t.Run("then in order", func(t *testing.T) {
		mended, _ := stubRepository(t, jar, hexSum(jar))
		start(t, embedded.Config{Dir: dir, Repository: mended.URL, Settings: map[string]string{"fsync": "off"}})
	})
	t.Run("offline", func(t *testing.T) {
		_, err := embedded.Start(t.Context(), embedded.Config{Dir: filepath.Join(folder(t), "data"), Offline: true})
		if !errors.Is(err, embedded.ErrNoBinaries) {
			t.Errorf("error %v, want ErrNoBinaries", err)
		}
	})
}

// bare hides the machine's own servers, for a test that is alone while it runs.
func bare(t *testing.T) {
	t.Helper()
	t.Setenv("PATH", folder(t))
	was := embedded.Places(nil)
	t.Cleanup(func() { embedded.Places(was) })
}

// stubRepository answers as Maven Central does; a nil archive is none. The function lists the paths it was asked for.
func stubRepository(t *testing.T, jar []byte, sum string) (*httptest.Server, func() []string) {
	t.Helper()
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.URL.Path)
		mu.Unlock()
		switch {
		case jar == nil || !strings.HasPrefix(r.URL.Path, "/io/zonky/test/postgres/embedded-postgres-binaries-"):
			http.NotFound(w, r)
		case strings.HasSuffix(r.URL.Path, ".sha256"):
			fmt.Fprint(w, sum)
		default:
			_, _ = w.Write(jar)
		}
	}))
	t.Cleanup(server.Close)
	return server, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return asked
	}
}

func hexSum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// archive is a jar with an xz'ed tar of programs that run those in bin, as the published ones are packed.
func archive(t *testing.T, bin string) []byte {
	t.Helper()
	var packed bytes.Buffer
	files := tar.NewWriter(&packed)
	for _, name := range []string{"postgres", "initdb", "pg_ctl"} {
		script := fmt.Sprintf("#!/bin/sh\nexec %s \"$@\"\n", filepath.Join(bin, name))
		err := files.WriteHeader(&tar.Header{Name: "bin/" + name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(script))})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := files.Write([]byte(script)); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	var jar bytes.Buffer
	zipped := zip.NewWriter(&jar)
	entry, err := zipped.Create("postgres.txz")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := entry.Write(xzStored(packed.Bytes())); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return jar.Bytes()
}

// xzStored wraps content, uncompressed, into the xz format (https://tukaani.org/xz/xz-file-format.txt): one block of LZMA2
// chunks that are stored as they are, checked by CRC32.
func xzStored(content []byte) []byte {
	flags := []byte{0, 1} // the check is CRC32
	out := append([]byte{0xfd, '7', 'z', 'X', 'Z', 0}, flags...)
	out = append(out, crc(flags)...)

	header := []byte{2, 0, 0x21, 1, 0x10, 0, 0, 0} // 12 bytes; one filter, LZMA2, with a dictionary of 1 MiB
	block := append(header, crc(header)...)
	kind := byte(1) // stored, and the dictionary starts anew
	for rest := content; len(rest) > 0; kind = 2 {
		chunk := rest[:min(len(rest), 1<<16)]
		rest = rest[len(chunk):]
		block = append(block, kind)
		block = binary.BigEndian.AppendUint16(block, uint16(len(chunk)-1))
		block = append(block, chunk...)
	}
	block = append(block, 0)
	unpadded := len(block) + 4
	block = append(padded(block), crc(content)...)
	out = append(out, block...)

	index := binary.AppendUvarint([]byte{0, 1}, uint64(unpadded))
	index = padded(binary.AppendUvarint(index, uint64(len(content))))
	index = append(index, crc(index)...)
	out = append(out, index...)

	footer := append(binary.LittleEndian.AppendUint32(nil, uint32(len(index)/4-1)), flags...)
	out = append(out, crc(footer)...)
	out = append(out, footer...)
	return append(out, 'Y', 'Z')
}

func padded(b []byte) []byte {
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func crc(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(b))
}
