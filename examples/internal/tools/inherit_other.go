//go:build !unix

package tools

import "errors"

// inheriting is for systems that have descriptors 0, 1 and 2.
func inheriting(...string) error { return errors.ErrUnsupported }
