package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// lockFile takes the lock of a folder for the life of this program; the kernel gives it up when the program dies, however
// it dies. Children do not inherit it.
func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("the data folder belongs to another user (%w); run as that user, or choose another folder with WAYBILL_DATA", err)
	}
	if err != nil {
		return nil, fmt.Errorf("lock the data folder (WAYBILL_DATA chooses another): %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w (process %s); stop that one, or choose another folder with WAYBILL_DATA", ErrInUse, holder(path))
		}
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	if err := errors.Join(file.Truncate(0), writeAt(file, strconv.Itoa(os.Getpid())+"\n")); err != nil {
		file.Close()
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	return file, nil
}

// unlock gives the lock up before it closes the file: a child that was forked but has not come to its exec yet has the file
// open too, and closing alone would leave the lock to it for that moment. A nil file is none.
func unlock(file *os.File) {
	if file == nil {
		return
	}
	_ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN) // fails only for a bad descriptor
	file.Close()
}

func writeAt(file *os.File, text string) error {
	_, err := file.WriteAt([]byte(text), 0)
	return err
}

// holder is the process id in the lock file, for people.
func holder(path string) string {
	text, err := os.ReadFile(path)
	if err != nil || len(strings.TrimSpace(string(text))) == 0 {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}
